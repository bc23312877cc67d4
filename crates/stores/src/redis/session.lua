-- Begins every script. KEYS start with lock, data and wait of one session, ARGV with the caller's
-- token. Answers: 0 done, 1 stale, 2 destroyed, 3 gone, 4 exists, 5 corrupt, or what a script says.
local call, lock_key, data_key, wait_key = redis.call, unpack(KEYS)
local token, lock = ARGV[1], call('GET', lock_key)
local mine = lock and string.sub(lock, 1, 17) == 'L' .. token
-- Whether a value, of which `head` is the beginning, leads to another id.
local function leads_on(head, now)
  return #head >= 26 and string.sub(head, 1, 2) == 'SA' and struct.unpack('<I8', head, 19) > now
end
-- Why an id cannot be given to a session, or nil.
local function refuse_id(lock, data_key, wait_key, now)
  -- A reservation that nobody has picked up is no lock.
  if lock and not (string.byte(lock) == 82 and call('LLEN', wait_key) > 0) then return 4 end
  local head = call('GETRANGE', data_key, 0, 25)
  if #head < 26 or string.byte(head) ~= 83 then return head ~= '' and 5 or nil end
  if string.byte(head, 2) ~= 68 and struct.unpack('<I8', head, 19) > now then return 4 end
end
-- Why a lease is no longer good, or nil: the lock is ours, or it lapsed and nobody wrote since.
-- `stamp` is what the data key says now (kind, writer, ends), `read` what it said at begin.
local function refuse_lease(stamp, read)
  local unchanged = string.sub(stamp, 1, 9) == string.sub(read, 1, 9)
  if mine or unchanged and not lock then return nil end
  if not unchanged and string.byte(stamp) == 68 then return 2 end
  return (lock or stamp ~= '') and 1 or 3
end
-- Wakes one waiter. DEL goes first: after a write, a full server refuses nothing of the script.
local function wake()
  call('DEL', wait_key)
  call('RPUSH', wait_key, token)
  call('PEXPIRE', wait_key, 200)
end
-- Frees a held lock, or reserves it for one of its waiters.
local function unlock()
  if string.byte(lock, 18) == 48 then return call('DEL', lock_key) end
  wake()
  call('SET', lock_key, 'R' .. token .. string.sub(lock, 18, 18), 'PX', 200)
end
