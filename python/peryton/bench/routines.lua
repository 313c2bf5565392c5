#!lua name=bench
-- The routines of the suite `procedures`, for Redis, Valkey and Peryton alike.

redis.register_function('one_set', function(keys, args)
  return redis.call('SET', keys[1], args[1])
end)

redis.register_function{
  function_name = 'one_get',
  callback = function(keys) return redis.call('GET', keys[1]) end,
  flags = { 'no-writes' },
}

-- A session is four strings: the user of a token, when it was made and last seen, and the token of a user.
redis.register_function('set_session', function(keys, args)
  local token, user = keys[1], args[1]
  redis.call('SET', token, user)
  redis.call('SET', token .. ':made', args[2])
  redis.call('SET', token .. ':seen', args[2])
  redis.call('SET', user, token)
  return redis.status_reply('OK')
end)

-- The user of a token, if it is the one that the user has now.
redis.register_function{
  function_name = 'get_session',
  callback = function(keys)
    local user = redis.call('GET', keys[1])
    if not user then
      return false
    end
    if redis.call('GET', user) ~= keys[1] then
      return false
    end
    return user
  end,
  flags = { 'no-writes' },
}

-- Ten steps of a chain in which each value is the next key.
redis.register_function{
  function_name = 'follow',
  callback = function(keys)
    local key = keys[1]
    for _ = 1, 10 do
      key = redis.call('GET', key)
    end
    return key
  end,
  flags = { 'no-writes' },
}
