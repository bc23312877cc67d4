-- Writes the record and releases.
-- KEYS: lock, data, wait.
-- ARGV: token, writer, stamp read at begin, value, its PX, reserve_ms, whether "nothing" may still be trusted.
-- Answers a number of lease.lua, or the stamp when an unleased touch moved the absolute end meanwhile.
local lock = redis.call('GET', KEYS[1])
local stamp = redis.call('GETRANGE', KEYS[2], 1, 17)
local mine = lock and string.sub(lock, 1, 17) == 'L' .. ARGV[1]
if not mine then
  -- Committed before; the answer was lost.
  if string.sub(stamp, 2, 9) == ARGV[2] or (lock and string.sub(lock, 1, 17) == 'R' .. ARGV[1]) then return 0 end
  local refused = refusal(lock, ARGV[1], stamp, ARGV[3])
  if refused then return refused end
  if stamp == '' and ARGV[7] == '0' then return 3 end
end
if stamp ~= '' and stamp ~= ARGV[3] then return stamp end
redis.call('SET', KEYS[2], ARGV[4], 'PX', ARGV[5])
if mine then unlock(KEYS[1], KEYS[3], lock, ARGV[1], ARGV[6]) end
return 0
