-- Stores a new record. KEYS: lock, data, wait. ARGV: now, value, its PX, writer.
local head = redis.call('GETRANGE', KEYS[2], 0, 25)
if head ~= '' then
  if #head < 26 or string.byte(head) ~= 83 then return 5 end
  -- Created before; the answer was lost.
  if string.sub(head, 3, 10) == ARGV[4] then return 0 end
  if string.byte(head, 2) ~= 68 and struct.unpack('<I8', head, 19) > tonumber(ARGV[1]) then return 4 end
end
local lock = redis.call('GET', KEYS[1])
-- A reservation that nobody picked up is no lock.
if lock and not (string.byte(lock) == 82 and redis.call('LLEN', KEYS[3]) > 0) then return 4 end
redis.call('SET', KEYS[2], ARGV[2], 'PX', ARGV[3])
return 0
