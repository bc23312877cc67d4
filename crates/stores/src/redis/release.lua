-- Frees the lock. By `mark` a lease that lapsed before this one learns that it had a successor.
if not mine then return 0 end
local mark = ARGV[2] == '1' and call('GETRANGE', data_key, 0, 0) == 'S'
unlock() -- before the mark: a full server must not keep the lock
if mark then call('SETRANGE', data_key, 2, string.sub(token, 1, 8)) end
return 0
