"""Commands about the server and the connection that change no key, and unknown ones."""

TABLE = """
4 PING [value]
1 PING value value
4 ECHO value
1 NOPE value*
1 NOPE many_integers
1 value value*
2 SELECT <database|wrong_database> ; SELECT 0
2 TIME
1 LASTSAVE
1 ROLE
1 ! WAIT 0 <0|1|'abc>
1 ! WAIT <1 1|'abc 0|0 -1>
2 ! COMMAND COUNT
2 COMMAND GETKEYS <GET any_key|MSET (key value)*|ZUNION counted_keys|SORT key STORE key|PING|NOPE 1|GET|EVAL 0
    counted_keys>
1 COMMAND GETKEYSANDFLAGS <GET any_key|SET key value|LMOVE key key LEFT RIGHT|RENAME key key>
1 COMMAND LIST FILTERBY <PATTERN 'set*|ACLCAT NOPE|MODULE NOPE|NOPE value>
1 ! COMMAND <NOPE|INFO NOPE>
1 OBJECT <NOPE|ENCODING key key>
2 CLIENT SETNAME <word|value|"">
2 CLIENT GETNAME
2 CLIENT ID
1 CLIENT INFO
1 CLIENT NO-EVICT <ON|OFF|NOPE>
1 CLIENT REPLY <ON|NOPE>
1 CLIENT TRACKINGINFO
1 CLIENT GETREDIR
1 ! CLIENT <KILL|KILL ID 'abc|KILL ID 0|KILL TYPE 'nope|KILL 1.2.3.4:5|KILL SKIPME|KILL SKIPME 'maybe|KILL
    ADDR 1.2.3.4:5|NOPE|LIST TYPE 'nope>
1 CLIENT UNBLOCK <0|'abc|123456789 NOPE|123456789 TIMEOUT|123456789 ERROR>
1 CLIENT LIST ID 0
1 CLIENT PAUSE <'abc|0|0 WRITE|0 NOPE>
1 CLIENT UNPAUSE
1 CLIENT CACHING <YES|NO|NOPE>
1 HELLO [2|3]
1 HELLO <1|4|'abc|2 NOPE|2 AUTH|2 SETNAME|3 SETNAME word>
1 HELLO <2|3> AUTH <'default|'nobody> word
1 RESET
1 AUTH <word|'default word|'nobody word|word word word>
1 CONFIG GET <'maxmemory|'appendonly|'nothing_like_it|'maxmemory-policy>
1 CONFIG <GET|SET|SET 'nothing_like_it 1|NOPE|RESETSTAT>
1 <READONLY|READWRITE|ASKING>
1 SLOWLOG <LEN|RESET|GET 0|NOPE|GET -2|GET 'abc>
1 DBSIZE
1 ! MONITOR value
"""
