-- Moves the record and the lock to a new id; the old one leads there for the grace.
-- KEYS: lock, data, wait; new lock, new data, new wait.
-- ARGV: token, stamp read at begin, now, lock value, lock_ttl_ms, alias, its PX, reserve_ms, whether there is a record.
local old, new = redis.call('GET', KEYS[1]), redis.call('GET', KEYS[4])
-- Moved before; the answer was lost.
if new and string.sub(new, 1, 17) == 'L' .. ARGV[1] then return 0 end
local stamp = redis.call('GETRANGE', KEYS[2], 1, 17)
local refused = refusal(old, ARGV[1], stamp, ARGV[2])
if refused then return refused end
if new and not (string.byte(new) == 82 and redis.call('LLEN', KEYS[6]) > 0) then return 4 end
local head = redis.call('GETRANGE', KEYS[5], 0, 25)
if head ~= '' then
  if #head < 26 or string.byte(head) ~= 83 then return 5 end
  if string.byte(head, 2) ~= 68 and struct.unpack('<I8', head, 19) > tonumber(ARGV[3]) then return 4 end
end
redis.call('DEL', KEYS[5])
if ARGV[9] == '1' then
  if stamp ~= '' then redis.call('RENAME', KEYS[2], KEYS[5]) end
  redis.call('SET', KEYS[2], ARGV[6], 'PX', ARGV[7])
end
redis.call('SET', KEYS[4], ARGV[4], 'PX', ARGV[5])
redis.call('DEL', KEYS[1])
if old and string.byte(old, 18) ~= 48 then
  -- No reservation: the waiters follow the alias, each one waking the next (begin.lua).
  redis.call('DEL', KEYS[3])
  redis.call('RPUSH', KEYS[3], ARGV[1])
  redis.call('PEXPIRE', KEYS[3], ARGV[8])
end
return 0
