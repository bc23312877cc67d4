-- Replaces the record by a tombstone and voids the lease.
-- KEYS: lock, data, wait. ARGV: token, tombstone, its PX, now, reserve_ms, whether to follow an alias.
-- Answers 0, or the id to which this one leads (nothing is done then: destroy that one first).
if ARGV[6] == '1' then
  local head = redis.call('GETRANGE', KEYS[2], 0, 25)
  if #head == 26 and string.byte(head, 2) == 65 and struct.unpack('<I8', head, 19) > tonumber(ARGV[4]) then
    return redis.call('GETRANGE', KEYS[2], 58, -1)
  end
end
-- DEL first: it is never refused, and after it a full server takes the tombstone too.
redis.call('DEL', KEYS[2])
local lock = redis.call('GET', KEYS[1])
if lock and string.byte(lock) == 76 then unlock(KEYS[1], KEYS[3], lock, ARGV[1], ARGV[5]) end
redis.call('SET', KEYS[2], ARGV[2], 'PX', ARGV[3])
return 0
