<?php
// How many sessions the handler of this pool holds: the benchmark compares that with the requests
// that it has made. Those of the handlers that are called `sessile` it counts itself.

function kept(string $handler, string $path): int
{
    switch ($handler) {
        case 'files':
            $count = 0;
            foreach (new FilesystemIterator($path) as $file) {
                $count += str_starts_with($file->getFilename(), 'sess_') ? 1 : 0;
            }
            return $count;
        case 'redis':
            $redis = new Redis();
            $redis->connect(strtok(substr($path, strlen('unix://')), '?'));
            return $redis->dbSize();
        case 'memcached':
            $memcached = new Memcached();
            $memcached->addServer(explode(':', $path)[0], 0);
            return (int) current($memcached->getStats())['curr_items'];
        default:
            // A handler in PHP, which was set before this page began.
            return SESSION_HANDLER->count($path);
    }
}

echo kept(ini_get('session.save_handler'), ini_get('session.save_path'));
