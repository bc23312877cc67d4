-- Takes the lock and reads the record.
-- KEYS: lock, data, wait, fence.
-- ARGV: token, holder, lock_ttl_ms, first fence, now, marks, popped token or '', whether it will wait, reserve_ms.
-- Answers {0, fence, data}, {1, lock, its remaining ms} when taken, {2, id} when the id leads on.
local token, marks, popped = ARGV[1], ARGV[6], ARGV[7]
local lock = redis.call('GET', KEYS[1])
-- Ours already: taken by the plain commands of acquire.rs, or by a try whose answer was lost.
local mine = lock and string.sub(lock, 1, 17) == 'L' .. token
if lock and not mine then
  local owner, free = string.sub(lock, 2, 17), false
  if string.byte(lock) == 82 then
    if owner == popped then
      free = true
    elseif redis.call('LPOP', KEYS[3]) == owner then
      -- Nobody was blocked when the lock was freed. A waiter may still be on its way to the list, so some
      -- suspicion goes on, but less each time: without waiters the marks end after three such turns.
      free = true
      local left = string.byte(lock, 18) - 49
      if left > tonumber(marks) then marks = tostring(left) end
    end
  end
  if not free then
    if ARGV[8] == '1' and string.byte(lock, 18) ~= 51 then redis.call('SETRANGE', KEYS[1], 17, '3') end
    return {1, lock, redis.call('PTTL', KEYS[1])}
  end
end
local data = redis.call('GET', KEYS[2])
if data and string.byte(data, 2) == 65 and #data > 58 and struct.unpack('<I8', data, 19) > tonumber(ARGV[5]) then
  -- The id leads on. Nobody will hold this lock, so whoever was woken here wakes the next one.
  if mine then redis.call('DEL', KEYS[1]) end
  if popped ~= '' or mine and string.byte(lock, 18) ~= 48 then
    redis.call('RPUSH', KEYS[3], token)
    redis.call('PEXPIRE', KEYS[3], ARGV[9])
  end
  return {2, string.sub(data, 59)}
end
local fence = redis.call('INCR', KEYS[4])
if fence < 1000000000 then
  -- A new or an emptied server: go on above every number given out before.
  redis.call('SET', KEYS[4], ARGV[4])
  fence = tonumber(ARGV[4])
end
if not mine then redis.call('SET', KEYS[1], 'L' .. token .. marks .. ARGV[2], 'PX', ARGV[3]) end
return {0, string.format('%.0f', fence), data}
