<?php
// Magento 2's own Redis handler (php-redis-session-abstract, with credis as its client), from a
// copy of the user: a directory with both, as their archives unpack. The path is DIRECTORY:SOCKET.
// The library's defaults apply, but that its connection is kept.

[$directory, $socket] = explode(':', ini_get('session.save_path'));
require "$directory/credis/Client.php";
spl_autoload_register(function (string $class) use ($directory): void {
    $file = "$directory/php-redis-session-abstract/src/" . strtr($class, '\\', '/') . '.php';
    is_file($file) && require $file;
});

// Every setting but these has the library's default. A first life of its own, and one for robots,
// would end sessions that the benchmark counts.
$getters = '';
$interface = Cm\RedisSession\Handler\ConfigInterface::class;
foreach (get_class_methods($interface) as $getter) {
    $value = match ($getter) {
        'getHost' => "'$socket'",
        'getPersistentIdentifier' => "'sessions'",
        'getFirstLifetime', 'getBotFirstLifetime', 'getBotLifetime' => "'0'",
        'getLifetime' => (int) ini_get('session.gc_maxlifetime'),
        default => 'null',
    };
    $getters .= "public function $getter() { return $value; } ";
}
eval("final class MagentoConfig implements $interface { $getters }");

final class MagentoLogger implements Cm\RedisSession\Handler\LoggerInterface
{
    public function setLogLevel($level)
    {
    }

    public function log($message, $level)
    {
    }

    public function logException(Exception $error)
    {
        error_log((string) $error);
    }
}

final class MagentoHandler extends Cm\RedisSession\Handler
{
    public function count(string $path): int
    {
        $redis = new Credis_Client(explode(':', $path)[1]);
        return (int) $redis->dbsize();
    }
}

define('SESSION_HANDLER', new MagentoHandler(new MagentoConfig(), new MagentoLogger()));
session_set_save_handler(SESSION_HANDLER);
