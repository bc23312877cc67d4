-- Moves the expiry under a lease, and renews the lease.
-- KEYS: lock, data. ARGV: now, idle_ms, absolute_ms or '', slack_ms, token, stamp read at begin, lock_ttl_ms.
-- Answers a number of lease.lua, or the new stamp.
local lock, head = redis.call('GET', KEYS[1]), redis.call('GETRANGE', KEYS[2], 0, 57)
local refused = refusal(lock, ARGV[5], string.sub(head, 2, 18), ARGV[6])
if refused then return refused end
local answer = slide(KEYS[2], head, tonumber(ARGV[1]), ARGV[2], ARGV[3], ARGV[4])
if answer ~= 0 then return answer end
if lock then redis.call('PEXPIRE', KEYS[1], ARGV[7]) end
return redis.call('GETRANGE', KEYS[2], 1, 17)
