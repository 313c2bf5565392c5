"""Commands on keys of any type: existence, type, names, copies, databases, scans.

Steps that change the chosen database go back to database 0 themselves.
"""

TABLE = """
5 DEL any_key*
3 UNLINK any_key*
4 EXISTS any_key*
3 TOUCH any_key*
4 TYPE any_key
5 RENAME any_key any_key
4 RENAMENX any_key any_key
6 COPY any_key any_key {[REPLACE] [DB database]}
1 COPY any_key any_key <DB wrong_database|DB|NOPE|REPLACE REPLACE>
3 MOVE any_key database
1 MOVE any_key wrong_database
3 SELECT database ; EXISTS every_key ; DBSIZE ; <SET string_key value|DEL any_key*|RPUSH list_key member> ; SELECT 0
1 SELECT wrong_database
1 SWAPDB <0|1|2> <0|1|2>
1 SWAPDB database wrong_database
1 SWAPDB wrong_database database
3 KEYS pattern
2 ! SCAN 0 {[MATCH pattern] [COUNT positive] [TYPE <STRING|HASH|LIST|SET|ZSET|NOPE>]}
1 ! SCAN <'abc|0> {[MATCH pattern] [COUNT count] [TYPE] [NOPE]}
2 EXISTS every_key ; DBSIZE
2 ! EXISTS every_key ; KEYS '* ; RANDOMKEY
2 OBJECT ENCODING any_key
1 OBJECT <REFCOUNT|IDLETIME> any_key
1 OBJECT FREQ any_key
1 OBJECT <HELP|NOPE any_key|ENCODING|REFCOUNT>
1 OBJECT HELP
2 MEMORY USAGE any_key [SAMPLES positive]
1 MEMORY <USAGE any_key SAMPLES -1|USAGE|NOPE>
1 ! FLUSHDB [SYNC|ASYNC|NOPE]
1 ! SELECT 1 ; FLUSHDB ; SELECT 0
1 ! FLUSHALL [SYNC|ASYNC|NOPE]
6 SET string_key value
3 ! SET string_key value PX millis
3 HSET hash_key (member value)*
4 RPUSH list_key member*
3 SADD set_key member*
3 ZADD zset_key (score member)*
3 ! EXPIRE any_key seconds
2 PERSIST any_key
2 TTL any_key
"""
