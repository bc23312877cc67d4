-- Gives the lock back without writing. KEYS: lock, data, wait. ARGV: token, writer or '', reserve_ms.
local lock = redis.call('GET', KEYS[1])
if not lock or string.sub(lock, 1, 17) ~= 'L' .. ARGV[1] then return 0 end
local ours = ARGV[2] ~= '' and redis.call('GETRANGE', KEYS[2], 0, 0) == 'S'
-- Before the mark: a full server must not keep the lock.
unlock(KEYS[1], KEYS[3], lock, ARGV[1], ARGV[3])
-- Leaves our mark in the record: a lease that lapsed before ours must learn that it had a successor.
if ours then redis.call('SETRANGE', KEYS[2], 2, ARGV[2]) end
return 0
