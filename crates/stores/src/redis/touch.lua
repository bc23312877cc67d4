-- Moves the expiry without a lease. KEYS: data. ARGV: now, idle_ms, absolute_ms or '', slack_ms.
-- Answers a number of lease.lua, or the id to which this one leads.
local head, now = redis.call('GETRANGE', KEYS[1], 0, 57), tonumber(ARGV[1])
if #head == 58 and string.byte(head, 2) == 65 and struct.unpack('<I8', head, 19) > now then
  return redis.call('GETRANGE', KEYS[1], 58, -1)
end
return slide(KEYS[1], head, now, ARGV[2], ARGV[3], ARGV[4])
