#!lua name=sessions
-- Sessions of a web application: a token leads to a hash with the user, and a user to the tokens of all devices.

local TIME_S = 3600

local function key_of(token)
  return 'session:' .. token
end

local function tokens_of(user)
  return 'sessions:' .. user
end

-- session_open token user agent: makes a session.
redis.register_function('session_open', function(keys, args)
  local token, user, agent = unpack(args)
  local key = key_of(token)
  if redis.call('EXISTS', key) == 1 then
    return redis.error_reply('TAKEN this token is in use')
  end
  redis.call('HSET', key, 'user', user, 'agent', agent, 'hits', 0)
  redis.call('EXPIRE', key, TIME_S)
  redis.call('SADD', tokens_of(user), token)
  return redis.status_reply('OK')
end)

-- session_get token: the user and how often the session was used; nothing if it is over. A use makes it live on.
redis.register_function('session_get', function(keys, args)
  local key = key_of(args[1])
  local user = redis.call('HGET', key, 'user')
  if not user then
    return nil
  end
  redis.call('EXPIRE', key, TIME_S)
  return { user, redis.call('HINCRBY', key, 'hits', 1) }
end)

-- session_close_all user: ends the user's sessions on all devices, and tells how many there were.
redis.register_function('session_close_all', function(keys, args)
  local ended = 0
  for _, token in ipairs(redis.call('SMEMBERS', tokens_of(args[1]))) do
    ended = ended + redis.call('DEL', key_of(token))
  end
  redis.call('DEL', tokens_of(args[1]))
  return ended
end)
