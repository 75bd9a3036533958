"""The statements that divide the cost limit of a batch; one call executes them in one transaction."""

from run_specialist.fleet.queue_sql import BATCHES, ITEMS, JOBS, LOG, RUNS

LOCK = f"select cost_limit from {BATCHES} where batch_id = $1 for update"
"""Selects the limit of a batch, and locks it against other workers that request a share."""

MINE = f"select id from {JOBS} where id = $1 and queue_manager_id = $2 for update"
"""Selects a job if the worker still holds it; values: job, worker."""

TAKEN = f"""
select coalesce(sum(greatest(coalesce(i.granted, 0), coalesce(r.cost_usd, 0))) filter (where i.run_id <> $2), 0)
        + coalesce(max(r.cost_usd) filter (where i.run_id = $2), 0) as taken,
    coalesce(max(r.cost_usd), 0) as dearest, coalesce(max(r.cost_usd) filter (where i.run_id = $2), 0) as own,
    count(*) filter (where i.run_id <> $2 and i.state = 'begun' and i.granted is not null) as under_way
from {ITEMS} i left join {RUNS} r on r.run_id = i.run_id where i.batch_id = $1
"""
"""Selects the spent and the granted amounts of the items of a batch, for the requesting item; values: batch, run.

`taken`: of all items, without the earlier grant of the requesting item; `dearest`: cost of the most expensive run;
`own`: cost of the item so far [USD]; `under_way`: other items with a grant.
"""

FLEET = f"""
select count(*) as jobs, count(distinct queue_manager_id) filter (where status = 'picked') as workers
from {JOBS} where entrypoint = $1
"""
"""Counts the jobs of a batch, and the workers that hold some."""

RESERVE = f"update {ITEMS} set granted = $3 where batch_id = $1 and run_id = $2"
"""Grants an item the maximum cost of its run; values: batch, run, cost [USD]."""

WAIT_AGAIN = f"update {ITEMS} set state = 'waiting', granted = null where batch_id = $1 and run_id = $2"
"""Makes an item wait again whose request for a share failed; values: batch, run."""

END = f"update {BATCHES} set state = 'ended', reason = $2 where batch_id = $1 and state in ('open', 'paused')"
"""Ends a batch whose limit leaves too little for another item; values: batch, packed reason."""

REMOVE = f"""
with gone as (
    delete from {JOBS} where entrypoint = $1 and (status <> 'picked' or id = $2) returning id, entrypoint, priority
)
insert into {LOG} (job_id, status, entrypoint, priority) select id, 'canceled', entrypoint, priority from gone
"""
"""Deletes the jobs of a batch that no worker holds, and one more; values: batch, job. Their items stay unchanged."""
