<?php
// The Drupal 10 and 11 module with stand-ins for Drupal, for client.php. Not shown: whether
// Drupal's container puts the module in its place.

namespace Drupal\Core\Database {
    class Connection
    {
        public function update(string $table): static
        {
            return $this;
        }

        public function __call(string $name, array $arguments): static
        {
            return $this;
        }
    }
}

namespace Drupal\Component\Datetime {
    interface TimeInterface
    {
        public function getRequestTime(): int;
    }
}

namespace Drupal\Component\Utility {
    class Crypt
    {
        public static function hashBase64(string $data): string
        {
            return md5($data);
        }
    }
}

namespace {
    /** The table sessions: a file for each row. */
    class Rows implements SessionHandlerInterface
    {
        private function file(string $id): string
        {
            return getenv('TEST_DIRECTORY') . "/row-$id";
        }

        public function open(string $path, string $name): bool
        {
            return true;
        }

        public function close(): bool
        {
            return true;
        }

        public function read(string $id): string
        {
            return is_file($this->file($id)) ? file_get_contents($this->file($id)) : '';
        }

        public function write(string $id, string $data): bool
        {
            return file_put_contents($this->file($id), $data) > 0;
        }

        public function destroy(string $id): bool
        {
            return !is_file($this->file($id)) || unlink($this->file($id));
        }

        public function gc(int $max_lifetime): int
        {
            return 0;
        }
    }

    class Time implements Drupal\Component\Datetime\TimeInterface
    {
        public function getRequestTime(): int
        {
            return time();
        }
    }

    require dirname(__DIR__) . '/drupal/sessile/src/SessionHandler.php';
    foreach (['gc_maxlifetime' => 6, 'gc_probability' => 1, 'gc_divisor' => 1] as $name => $value) {
        ini_set("session.$name", $value);
    }
    $handler = new Drupal\sessile\SessionHandler(new Rows(), new Drupal\Core\Database\Connection(),
        new Time());
    session_set_save_handler($handler, true);
    session_start();
    $page = trim($_SERVER['REQUEST_URI'], '/');
    if ($page === 'count') {
        $_SESSION['n'] = ($_SESSION['n'] ?? 0) + 1;
        usleep(5_000);
    } elseif ($page === 'login') {
        session_regenerate_id(true);
        $_SESSION['_sf2_attributes'] = ['uid' => 1];
    } elseif ($page === 'enter') {
        session_regenerate_id(true);
        $_SESSION['_sf2_attributes'] = ['uid' => 7];
    } elseif ($page === 'end-others') {
        $ended = sessile_revoke('7', true);
    } elseif ($page === 'logout') {
        session_destroy();
    } elseif ($page === 'revoke') {
        // A password change in Drupal, while a request of the user is running.
        array_map('unlink', glob(getenv('TEST_DIRECTORY') . '/row-*'));
        $_SESSION['n'] = 10;
    }
    $answers = ['count' => $_SESSION['n'] ?? 0,
        'end-others' => $ended ?? 0,
        'user' => isset($_SESSION['_sf2_attributes']['uid']) ? 'anna' : 'nobody'];
    if ($page !== 'logout') {
        session_write_close();
    }
    echo $answers[$page] ?? 'done';
}
