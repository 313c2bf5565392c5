"""SORT and SORT_RO over lists, sets and sorted sets.

TYPE comes first in a step, since BY with a constant keeps the order of the
source, and a set has none. The keys that patterns reach are ``w_*`` and ``h*``.

A ZADD that adds nothing comes before each: Redis's SORT refuses any number while
C's errno is set, which some earlier number may have left behind and ZADD clears.
"""

import re

_TABLE = """
5 SORT <list_key|set_key|zset_key> {[ASC|DESC] [ALPHA] [LIMIT index count]}
3 SORT <list_key|set_key|zset_key> ALPHA {[ASC|DESC] [LIMIT index count] [STORE any_key]}
3 SORT <list_key|set_key|zset_key> {[DESC] [LIMIT index count] STORE any_key}
4 TYPE <list_key|set_key|zset_key> ; SORT @ {BY sort_pattern [ASC|DESC] [ALPHA] [LIMIT index count]}
4 TYPE <list_key|set_key|zset_key> ; SORT @ {BY sort_pattern [DESC] (GET get_pattern)*}
3 SORT <list_key|set_key|zset_key> {(GET get_pattern)* [ALPHA] [STORE any_key]}
2 TYPE <list_key|set_key|zset_key> ; SORT_RO @ {[BY sort_pattern] [GET get_pattern] [ALPHA] [DESC] [LIMIT index count]}
1 SORT_RO <list_key|set_key> STORE any_key
1 SORT any_key <NOPE|LIMIT 1|BY|GET|STORE|LIMIT 'abc 1>
4 RPUSH list_key number_text*
2 RPUSH list_key member*
3 SADD set_key number_text*
2 SADD set_key member*
3 ZADD zset_key (listpack_score number_text)*
4 ! MSET (weight_key number_text)*
1 ! MSET (weight_key value)*
3 HSET weight_hash_key (<'weight|'name> number_text)*
1 DEL any_key
"""

TABLE = re.sub(r"^(\d+ )(?=TYPE|SORT)", r"\1ZADD 'nothing XX 0 'x ; ", _TABLE, flags=re.MULTILINE)
