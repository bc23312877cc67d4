-- Shared by the scripts that work under a lease. Layouts: value.rs (data) and lock.rs (lock).
-- Answers: 0 done, 1 stale, 2 destroyed, 3 gone, 4 exists, 5 corrupt.

-- Why a lease is no longer good, or nil if it is: the lock is ours, or it lapsed and nobody wrote since.
-- `stamp` is what the data key says now (kind, writer, ends), `read` what it said at begin.
local function refusal(lock, token, stamp, read)
  if lock and string.sub(lock, 1, 17) == 'L' .. token then return nil end
  local unchanged = string.sub(stamp, 1, 9) == string.sub(read, 1, 9)
  if not unchanged and string.byte(stamp) == 68 then return 2 end
  if lock then return 1 end
  if unchanged then return nil end
  if stamp == '' then return 3 end
  return 1
end

-- Frees a held lock. With waiters it is reserved for the one that pops the token from the list, so that a
-- releaser that begins again at once cannot overtake it. DEL goes first: once a script has written, a full
-- server no longer refuses the rest of it.
local function unlock(lock_key, wait_key, lock, token, reserve_ms)
  if string.byte(lock, 18) == 48 then
    redis.call('DEL', lock_key)
    return
  end
  redis.call('DEL', wait_key)
  redis.call('SET', lock_key, 'R' .. token .. string.sub(lock, 18, 18), 'PX', reserve_ms)
  redis.call('RPUSH', wait_key, token)
  redis.call('PEXPIRE', wait_key, reserve_ms)
end
