<?php
// Sessions in a database through PDO, as Symfony's PdoSessionHandler by default: a request is a
// transaction that holds the row of its session, so that others on the same session wait. The path
// is a DSN. Connections stay, statements are sent in one trip. SQLite locks no rows: there a
// request holds the database. With `contender.lock = 0` each statement is a transaction of its own
// and nobody waits, as in the database handler of Drupal 7.

final class PdoHandler implements SessionHandlerInterface
{
    private ?PDO $database = null;
    private string $driver = '';
    private bool $locks = true;
    private bool $begun = false;

    public function open(string $path, string $name): bool
    {
        if ($this->database !== null) {
            return true;
        }
        $this->driver = strstr($path, ':', true);
        $this->locks = get_cfg_var('contender.lock') !== '0';
        $options = [PDO::ATTR_PERSISTENT => true, PDO::ATTR_TIMEOUT => 60];
        if ($this->driver === 'mysql') {
            $options[PDO::MYSQL_ATTR_INIT_COMMAND] =
                'SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED';
        } elseif ($this->driver === 'pgsql') {
            $options[PDO::PGSQL_ATTR_DISABLE_PREPARES] = true;
        }
        $this->database = new PDO($path, $this->driver === 'mysql' ? 'root' : null, null, $options);
        if ($this->driver === 'sqlite') {
            $this->database->exec('PRAGMA synchronous = OFF');
        }
        return true;
    }

    public function close(): bool
    {
        if ($this->begun) {
            $this->database->exec('COMMIT');
            $this->begun = false;
        }
        return true;
    }

    public function read(string $id): string|false
    {
        if (!$this->locks) {
            return (string) $this->select($id);
        }
        $this->database->exec($this->driver === 'sqlite' ? 'BEGIN IMMEDIATE' : 'BEGIN');
        $this->begun = true;
        $data = $this->select($id);
        if ($data === false) {
            // A row that is not there cannot be locked, so there is one from now on; whoever makes
            // the same one waits here.
            $insert = match ($this->driver) {
                'mysql' => 'INSERT IGNORE INTO sessions VALUES (?, ?, ?)',
                default => 'INSERT INTO sessions VALUES (?, ?, ?) ON CONFLICT (id) DO NOTHING',
            };
            $made = $this->run($insert, $id, '')->rowCount();
            $data = $made === 1 ? '' : $this->select($id);
        }
        return $data === false ? '' : $data;
    }

    public function write(string $id, string $data): bool
    {
        $set = match ($this->driver) {
            'mysql' => 'ON DUPLICATE KEY UPDATE data = VALUES(data), expires = VALUES(expires)',
            default => 'ON CONFLICT (id) DO UPDATE SET'
                . ' data = excluded.data, expires = excluded.expires',
        };
        $this->run("INSERT INTO sessions VALUES (?, ?, ?) $set", $id, $data);
        return true;
    }

    public function destroy(string $id): bool
    {
        $this->run('DELETE FROM sessions WHERE id = ?', $id);
        return true;
    }

    public function gc(int $max_lifetime): int|false
    {
        return $this->database->exec('DELETE FROM sessions WHERE expires < ' . time());
    }

    /** Makes the table too, when it is asked before the first request. */
    public function count(string $path): int
    {
        $this->open($path, '');
        if ($this->driver === 'sqlite') {
            $this->database->exec('PRAGMA journal_mode = WAL');
        }
        $columns = match ($this->driver) {
            'mysql' => 'id VARBINARY(128) PRIMARY KEY, data MEDIUMBLOB NOT NULL,'
                . ' expires INT UNSIGNED NOT NULL, INDEX (expires)',
            'pgsql' => 'id VARCHAR(128) PRIMARY KEY, data BYTEA NOT NULL, expires BIGINT NOT NULL',
            default => 'id TEXT PRIMARY KEY, data BLOB NOT NULL, expires INTEGER NOT NULL',
        };
        $this->database->exec("CREATE TABLE IF NOT EXISTS sessions ($columns)");
        if ($this->driver !== 'mysql') {
            $this->database->exec(
                'CREATE INDEX IF NOT EXISTS sessions_expires ON sessions (expires)');
        }
        return (int) $this->database->query('SELECT count(*) FROM sessions')->fetchColumn();
    }

    private function select(string $id): string|false
    {
        $lock = !$this->locks || $this->driver === 'sqlite' ? '' : 'FOR UPDATE';
        $found = $this->database->prepare("SELECT data, expires FROM sessions WHERE id = ? $lock");
        $found->execute([$id]);
        $row = $found->fetch(PDO::FETCH_NUM);
        if ($row === false) {
            return false;
        }
        [$data, $expires] = $row;
        $data = is_resource($data) ? stream_get_contents($data) : $data;
        return $expires >= time() ? $data : '';
    }

    /** With the data and the time when it expires, where there is data. */
    private function run(string $query, string $id, ?string $data = null): PDOStatement
    {
        $statement = $this->database->prepare($query);
        $statement->bindValue(1, $id);
        if ($data !== null) {
            $statement->bindValue(2, $data, PDO::PARAM_LOB);
            $statement->bindValue(3, time() + (int) ini_get('session.gc_maxlifetime'),
                PDO::PARAM_INT);
        }
        $statement->execute();
        return $statement;
    }
}

define('SESSION_HANDLER', new PdoHandler());
session_set_save_handler(SESSION_HANDLER);
