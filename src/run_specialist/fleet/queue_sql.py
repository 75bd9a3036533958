"""Statements missing in PgQueuer: they change a job only while its worker still holds it.

A worker that was frozen may have lost its jobs. PgQueuer's own statements would then delete the job of the worker that
has it now, whose item would be lost if that worker died. Job and item change in one statement, so that neither can
change alone.
"""

from run_specialist.fleet.queue_connection import QUEUE_SCHEMA
from run_specialist.store.identity import NAMESPACE

JOBS, LOG = f"{QUEUE_SCHEMA}.pgqueuer", f"{QUEUE_SCHEMA}.pgqueuer_log"
BATCHES, ITEMS, RUNS, TURNS, GATES = (f"{NAMESPACE}.{name}" for name in ("batches", "items", "runs", "turns", "gates"))

GRANTS: dict[str, tuple[str, ...]] = {
    BATCHES: ("SELECT", "UPDATE (state, reason)"),
    ITEMS: ("SELECT", "UPDATE"),
    GATES: ("SELECT", "INSERT", "UPDATE", "DELETE"),
    **{f"{NAMESPACE}.{name}": ("SELECT", "INSERT", "UPDATE") for name in ("runs", "turns", "calls", "outputs")},
    **{f"{NAMESPACE}.{name}": ("SELECT", "INSERT", "UPDATE") for name in ("events", "changes", "search")},
    f"{NAMESPACE}.messages": ("SELECT", "INSERT", "UPDATE", "DELETE"),
    f"{NAMESPACE}.alembic_version": ("SELECT",),
    JOBS: ("SELECT", "UPDATE", "DELETE"),
    LOG: ("SELECT", "INSERT", "UPDATE", "DELETE"),
}
"""The privileges on tables that a worker needs; it also needs USAGE of both schemas."""

LACKING = """
select name, privilege from unnest($1::text[], $2::text[]) as needed (name, privilege)
where case
    when privilege = 'USAGE' then not has_schema_privilege(name, privilege)
    when not has_schema_privilege(split_part(name, '.', 1), 'USAGE') then true
    when privilege = 'DELETE' then not has_table_privilege(name, privilege)
    else not has_any_column_privilege(name, split_part(privilege, ' ', 1)) end
"""
"""Selects the privileges that the role of this session lacks; values: names of schemas and tables, privileges."""

_LOGGED = f"insert into {LOG} (job_id, status, entrypoint, priority) select id, {{}}, entrypoint, priority from mine"
_ITEM_OF_MINE = "where run_id = $3 and batch_id = $4 and exists (select 1 from mine)"

FINISH = f"""
with mine as (delete from {JOBS} where id = $1 and queue_manager_id = $2 returning id, entrypoint, priority),
logged as ({_LOGGED.format("'successful'")}),
item as (
    update {ITEMS} i set state = coalesce($5, state), error = $6, granted = case
        when exists (select 1 from {RUNS} r where r.run_id = i.run_id and r.cost_usd is null) then granted end
    {_ITEM_OF_MINE}
)
select id from mine
"""
"""Deletes a job, sets the state of its item, and returns the unspent part of the item's share of the cost limit.

If the cost of its run is unknown, the whole grant counts as spent.
Values: job, worker, run, batch, state (null = as it is), packed error.
"""

HAND_BACK = f"""
with mine as (
    update {JOBS} set status = 'queued', execute_after = now() + $5::interval, attempts = attempts + $7::int,
        updated = now(), queue_manager_id = null, slot = null
    where id = $1 and queue_manager_id = $2 returning id, entrypoint, priority
),
logged as ({_LOGGED.format("'queued'")}),
item as (update {ITEMS} set state = 'waiting', granted = null {_ITEM_OF_MINE} and $6 and state = 'begun')
select id from mine
"""
"""Queues a job again.

Values: job, worker, run, batch, delay, whether the item waits and is not at work elsewhere, attempts to add.
"""

BEAT = f"""
update {JOBS} set heartbeat = now() where id = any($1::bigint[]) and queue_manager_id = $2 returning id
"""
"""Records heartbeats; returns the jobs that the worker still holds."""

BEGIN = f"""
with before as (
    select run_id, batch_id, state, turns, takeovers,
        (select count(*) from {TURNS} t where t.run_id = i.run_id) as made,
        exists (select 1 from {RUNS} r where r.run_id = i.run_id and r.status <> 'running') as has_ended
    from {ITEMS} i where run_id = $1 and batch_id = $2 for update
)
update {ITEMS} i set state = 'begun', turns = made, takeovers =
    case when before.turns < made then 0 else before.takeovers end
    + case when before.state = 'begun' and not has_ended then 1 else 0 end
from before where i.run_id = before.run_id and i.batch_id = before.batch_id
    and before.state in ('waiting', 'begun')
returning before.state = 'begun' as taken_over, i.takeovers, i.question, i.input, has_ended,
    (select owner from {RUNS} r where r.run_id = $1) as owner,
    (select cost_limit from {BATCHES} b where b.batch_id = $2) as cost_limit
"""
"""Begins an item. If it was not handed back, its worker has died: this is a takeover, counted since the newest turn."""

UNCOUNT = f"update {ITEMS} set takeovers = greatest(takeovers - 1, 0) where run_id = $1 and batch_id = $2"
"""Reverts the count of a takeover that was not one."""

WAITING = f"""
select v.version_num as version, b.batch_id, b.state, greatest(g.until, g.probe) - extract(epoch from now()) as closed,
    (select count(*) from {JOBS} j where j.queue_manager_id is not null and j.entrypoint = b.batch_id) as held,
    coalesce((select max(priority) from {JOBS} j where status = 'queued' and entrypoint = b.batch_id), 0) as priority
from {NAMESPACE}.alembic_version v
left join {BATCHES} b on exists (select 1 from {JOBS} j where j.entrypoint = b.batch_id)
left join {GATES} g on g.batch_id = b.batch_id
order by b.created_at, b.batch_id
"""
"""Selects the batches that have jobs, oldest first, with the version of the tables; at least one row.

`closed`: for how long the gate is closed [s], null = it is open; `held`: jobs that workers hold.
"""

PRIORITY = f"update {JOBS} set priority = $2 where entrypoint = $1 and priority <> $2"
"""Sets the priority of all jobs of a batch."""

DROP = f"""
with mine as (delete from {JOBS} where id = $1 and queue_manager_id = $2 returning id, entrypoint, priority)
insert into {LOG} (job_id, status, entrypoint, priority) select id, 'exception', entrypoint, priority from mine
"""
"""Deletes a job that names no item; values: job, worker."""

SELECT_BATCH = f"select frozen from {BATCHES} where batch_id = $1"

PROBE = f"""
update {GATES} set probe = extract(epoch from now()) + $2::float
where batch_id = $1 and greatest(until, probe) <= extract(epoch from now()) returning batch_id
"""
"""Lets one worker of the fleet try one item after a pause; values: batch, time for it [s]."""

CLOSE = f"""
insert into {GATES} as g (batch_id, until, probe, failures, reason)
values ($1, extract(epoch from now()) + coalesce($2::float, $3::float), 0, 1, $4)
on conflict (batch_id) do update set reason = excluded.reason, probe = 0,
    failures = g.failures + case when g.until <= extract(epoch from now()) then 1 else 0 end,
    until = greatest(g.until, extract(epoch from now()) + coalesce($2,
        case when g.until <= extract(epoch from now()) then least($3 * power(2, g.failures), $5::float) else 0 end))
"""
"""Closes the gate of a batch; values: batch, requested wait [s], first pause, reason, longest pause.

Further runs that fail in the same outage do not prolong the pause.
"""

OPEN = f"delete from {GATES} where batch_id = $1 and until <= extract(epoch from now())"

FORGET_GATE = f"delete from {GATES} where batch_id = $1"

CANCEL = f"""
with gone as (delete from {JOBS} where entrypoint = $1 and status <> 'picked' returning id, entrypoint, priority)
insert into {LOG} (job_id, status, entrypoint, priority) select id, 'canceled', entrypoint, priority from gone
returning job_id
"""
"""Deletes the jobs of a batch that no worker holds."""

PRUNE = f"""
delete from {LOG} where id in (
    select id from {LOG} l where created < now() - $1::interval
        and not exists (select 1 from {JOBS} j where j.id = l.job_id)
    limit $2 for update skip locked
) returning id
"""
"""Deletes old entries of the log of jobs that have ended; values: age, how many at most."""

COUNTS = f"""
select entrypoint as batch_id, count(*) filter (where status = 'queued') as queued,
    count(*) filter (where status = 'picked') as picked,
    count(distinct queue_manager_id) as workers,
    max(extract(epoch from now() - heartbeat)) filter (where status = 'picked') as silent
from {JOBS} group by entrypoint order by entrypoint
"""
"""Counts the jobs of each batch; `silent`: age of the oldest heartbeat [s]."""

TO_DO = f"""
select number, run_id from {ITEMS} where batch_id = $1 and number is not null and state in ('waiting', 'begun')
order by number
"""
"""Selects the items of the newest call that have not ended."""

TO_RETRY = f"""
select i.number, i.run_id from {ITEMS} i left join {RUNS} r on r.run_id = i.run_id
where i.batch_id = $1 and i.number is not null
    and (i.state = 'dead' or i.state = 'ended' and (r.run_id is null or r.status = any($2::text[])))
order by i.number
"""
"""Selects the items that were abandoned, that have no run, or whose run ended with one of some statuses."""

SPENT_AND_GRANTED = f"""
    (select sum(r.cost_usd) from {ITEMS} i join {RUNS} r on r.run_id = i.run_id where i.batch_id = b.batch_id) as cost,
    (select sum(greatest(i.granted - coalesce(r.cost_usd, 0), 0)) from {ITEMS} i
        left join {RUNS} r on r.run_id = i.run_id where i.batch_id = b.batch_id) as granted
"""
"""The cost of a batch `b`, and the amount that its items in progress may still spend [USD]."""

STATUS = f"""
select b.batch_id, b.specialist, b.state, b.reason, b.cost_limit, g.reason as closed_by, {SPENT_AND_GRANTED},
    case when greatest(g.until, g.probe) > extract(epoch from now()) then greatest(g.until, g.probe) end
        as closed_until,
    (select json_object_agg(state, count) from (
        select case when i.state in ('dead', 'cancelled') then i.state
            when i.state = 'ended' then coalesce(r.status, 'failed') else i.state end as state, count(*) as count
        from {ITEMS} i left join {RUNS} r on r.run_id = i.run_id
        where i.batch_id = b.batch_id and i.number is not null group by 1
    ) as by_state) as items
from {BATCHES} b left join {GATES} g on g.batch_id = b.batch_id
where b.batch_id = $1 or $1 is null and exists (select 1 from {JOBS} j where j.entrypoint = b.batch_id)
order by b.created_at, b.batch_id
"""
"""Selects the state of one batch, or of all that have jobs; counts its items by state."""
