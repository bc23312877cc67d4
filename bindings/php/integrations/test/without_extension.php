<?php
// The integrations without the extension, which composer does not require: php
// without_extension.php. A deployment builds its packages where no extension is.

namespace Illuminate\Support {
    class ServiceProvider
    {
        public function __construct(protected object $app)
        {
        }
    }
}

namespace Drupal\Core\Database {
    class Connection
    {
    }
}

namespace Drupal\Component\Datetime {
    interface TimeInterface
    {
    }
}

namespace {
    function fail(string $why): never
    {
        fwrite(STDERR, "failed: $why\n");
        exit(1);
    }

    /** The container of Laravel, and its session manager. */
    class Container
    {
        private ?Closure $driver = null;

        public function make(string $name): static
        {
            return $this;
        }

        public function extend(string $driver, Closure $make): void
        {
            $this->driver = $make;
        }

        public function session(): void
        {
            ($this->driver)($this);
        }
    }

    function laravel(): void
    {
        require __DIR__ . '/../laravel/src/SessileServiceProvider.php';
        $container = new Container();
        (new Sessile\Laravel\SessileServiceProvider($container))->boot();
        $container->session();
    }

    function drupal(): void
    {
        require __DIR__ . '/../drupal/sessile/src/SessionHandler.php';
        $time = new class implements Drupal\Component\Datetime\TimeInterface {
        };
        $connection = new Drupal\Core\Database\Connection();
        $handler = new Drupal\sessile\SessionHandler(new SessionHandler(), $connection, $time);
        $handler->open('', '');
    }

    function drupal7(): void
    {
        require __DIR__ . '/../drupal7/session_handler.inc';
        (new SessileDrupalSession())->open('', '');
    }

    $expected = 'the PHP extension sessile is not loaded; add extension = sessile to php.ini';
    foreach (['laravel', 'drupal', 'drupal7'] as $product) {
        try {
            $product();
            $said = 'nothing';
        } catch (RuntimeException $exception) {
            $said = $exception->getMessage();
        }
        $said === $expected || fail("$product says without the extension: $said");
    }
    foreach (['laravel', 'drupal/sessile'] as $package) {
        $text = file_get_contents(__DIR__ . "/../$package/composer.json");
        $composer = json_decode($text, true, flags: JSON_THROW_ON_ERROR);
        isset($composer['suggest']['ext-sessile']) && !isset($composer['require']['ext-sessile'])
            || fail("$package requires the extension");
    }
    echo "without the extension: an error says so\n";
}
