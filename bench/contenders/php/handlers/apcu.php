<?php
// Sessions in APCu, as applications do it: shared by all processes of one php-fpm, without a lock,
// gone with its master. What does not fit any more makes APCu forget all of them.

final class ApcuHandler implements SessionHandlerInterface
{
    public function open(string $path, string $name): bool
    {
        return true;
    }

    public function close(): bool
    {
        return true;
    }

    public function read(string $id): string|false
    {
        $data = apcu_fetch($id);
        return $data === false ? '' : $data;
    }

    public function write(string $id, string $data): bool
    {
        return apcu_store($id, $data, (int) ini_get('session.gc_maxlifetime'));
    }

    public function destroy(string $id): bool
    {
        apcu_delete($id);
        return true;
    }

    public function gc(int $max_lifetime): int|false
    {
        return 0; // APCu does that
    }

    public function count(string $path): int
    {
        return (int) apcu_cache_info(true)['num_entries'];
    }
}

define('SESSION_HANDLER', new ApcuHandler());
session_set_save_handler(SESSION_HANDLER);
