"""Words that name the same thing in questions and in code."""

from functools import lru_cache

from run_specialist.providers.offline.similarity import root, synonyms

_GROUPS = """
argument arg parameter param option
asynchronous async coroutine await
authenticate authentication auth login
authorize authorization auth permission
buffer buf
calculate compute calc
cancel abort
check verify validate ensure assert is
clean cleanup clear purge
close shutdown dispose destroy teardown
combine join merge
command cmd
compare equal eq diff
configure configuration config conf setting option
connect connection conn
context ctx
convert transform cast coerce
copy clone duplicate
create make build new
current cur
database db
decode parse deserialize unmarshal load
decorate decorator wrap wrapper
delay wait sleep pause
delete remove del drop
dictionary dict map
directory dir folder
encode serialize marshal dump render
environment env
error err exception exc failure
event emit listener handler callback hook
execute run exec invoke call perform
fetch get load retrieve
file path
find lookup search match
function func fn callable
generate gen
handle handler process dispatch
identifier id
ignore skip exclude
information info
initialize init setup start
iterate iterator iter next
language lang
length len size
limit max maximum bound
log logger logging
message msg
minimum min
number num count
object obj
password passwd pwd
position pos index offset
previous prev last
print write output
read load
receive recv
reference ref
repeat retry attempt
reply response resp
request req
response resp res
save store write persist
send write emit dispatch
source src
specification spec
statistics stats
string str text
successful success succeed ok
temporary temp tmp
update refresh set
value val
variable var
version ver
"""
"""Abbreviations and common names, one group per line."""


@lru_cache(maxsize=1)
def _by_root() -> dict[str, tuple[str, ...]]:
    groups: dict[str, tuple[str, ...]] = {}
    for words in map(str.split, _GROUPS.split("\n")):
        for word in words:
            groups[root(word)] = groups.get(root(word), ()) + tuple(words)
    return groups


@lru_cache(maxsize=4096)
def names_in_code(word: str) -> tuple[str, ...]:
    """Return other words that code may use for a word of a question."""
    own = root(word)
    return tuple(other for other in dict.fromkeys((*_by_root().get(own, ()), *synonyms(word))) if root(other) != own)


@lru_cache(maxsize=4096)
def roots_in_code(word: str) -> frozenset[str]:
    """Return the roots of `names_in_code`."""
    return frozenset(map(root, names_in_code(word)))
