-- Takes the lock, unless the plain commands of begin.rs have, and reads. KEYS[4]: the counter of
-- fences. Answers {0, fence, data}, {1, lock, its remaining ms} when taken,
-- {2, id, 0} when the id leads on.
local _, holder, lock_ttl_ms, now, marks, popped, waits = unpack(ARGV)
if lock and not mine then
  local reserved_for = string.byte(lock) == 82 and string.sub(lock, 2, 17)
  local free = reserved_for == popped
  if reserved_for and not free and call('LPOP', wait_key) == reserved_for then
    -- No waiter was blocked when the lock was freed. One may still be on its way to the list, so
    -- marks stay, one lower each time: without waiters they end after three such turns.
    free, marks = true, math.max(marks, string.byte(lock, 18) - 49)
  end
  if not free then
    if waits == '1' and string.byte(lock, 18) ~= 51 then call('SETRANGE', lock_key, 17, '3') end
    return {1, lock, call('PTTL', lock_key)}
  end
end
local data = call('GET', data_key)
if data and leads_on(data, tonumber(now)) then
  -- Nobody will hold this lock, so the waiter that was woken here wakes the next one.
  if mine then call('DEL', lock_key) end
  if popped ~= '' or mine and string.byte(lock, 18) ~= 48 then wake() end
  return {2, string.sub(data, 59), 0}
end
local fence, time = call('INCR', KEYS[4]), call('TIME')
local us = time[1] * 1000000 + time[2]
if fence < us then -- see fences.rs
  call('SET', KEYS[4], string.format('%.0f', us))
  fence = us
end
if not mine then call('SET', lock_key, 'L' .. token .. marks .. holder, 'PX', lock_ttl_ms) end
return {0, fence, data}
