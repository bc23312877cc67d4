--TEST--
Laravel's handler reports a failed save, and its driver refuses Octane with Swoole
--FILE--
<?php
namespace Illuminate\Support {
    class ServiceProvider
    {
        public function __construct(protected object $app)
        {
        }
    }
}
namespace Illuminate\Container {
    class Container
    {
        public static ?object $instance = null;

        public static function getInstance(): object
        {
            return self::$instance;
        }
    }
}
namespace {
    require __DIR__ . '/common.inc';
    $source = dirname(__DIR__) . '/integrations/laravel/src';
    require "$source/SessileHandler.php";
    require "$source/SessileServiceProvider.php";

    /** As much of Laravel's container, session manager and configuration as the driver asks for. */
    class Application
    {
        public string $server = 'swoole';
        public ?Closure $driver = null;

        public function make(string $what): object
        {
            return $this;
        }

        public function resolved(string $what): bool
        {
            return false;
        }

        public function extend(string $name, Closure $driver): void
        {
            $this->driver = $driver;
        }

        public function get(string $name): mixed
        {
            return $name === 'octane.server' ? $this->server : ['lifetime' => 1];
        }
    }

    $application = new Application();
    Illuminate\Container\Container::$instance = $application;
    (new Sessile\Laravel\SessileServiceProvider($application))->boot();
    $_SERVER['LARAVEL_OCTANE'] = 1;
    try {
        ($application->driver)($application);
    } catch (RuntimeException $refused) {
        var_dump(str_contains($refused->getMessage(), 'another server of Octane'));
    }
    $application->server = 'frankenphp';
    $handler = ($application->driver)($application);
    session_save_path('memory:?payload_bytes_max=100');
    $id = fresh_id();
    var_dump($handler->write($id, 'short'), @$handler->write($id, str_repeat('long', 100)), $handler->read($id));
}
?>
--EXPECT--
bool(true)
bool(true)
bool(false)
string(5) "short"
