<?php
// A stand-in for Drupal 7's database: tables in one file, with the SQL conditions and joins that
// sessile.inc needs. Unknown queries fail.

class Tables
{
    /** Runs a read or a change under a lock. */
    public static function with(callable $work): mixed
    {
        $file = fopen(getenv('TEST_DIRECTORY') . '/tables', 'c+');
        flock($file, LOCK_EX);
        $tables = json_decode(stream_get_contents($file), true) ?? [
            'users' => [
                ['uid' => 1, 'name' => 'anna', 'status' => 1, 'access' => 0, 'data' => null],
            ],
            'sessions' => [],
            'role' => [['rid' => 4, 'name' => 'editor']],
            'users_roles' => [['uid' => 1, 'rid' => 4]],
        ];
        $result = $work($tables);
        ftruncate($file, 0);
        rewind($file);
        fwrite($file, json_encode($tables));
        fclose($file);
        return $result;
    }
}

/** A change by db_merge(), db_update() or db_delete(). */
class Change
{
    private array $key = [];
    private array $fields = [];
    private array $conditions = [];

    public function __construct(private string $kind, private string $table)
    {
    }

    public function key(array $key): static
    {
        $this->key = $key;
        foreach ($key as $column => $value) {
            $this->condition($column, $value);
        }
        return $this;
    }

    public function fields(array $fields): static
    {
        $this->fields = $fields;
        return $this;
    }

    public function condition(string $column, mixed $value, string $operator = '='): static
    {
        $this->conditions[] = match ($operator) {
            '=' => fn ($row) => $row[$column] == $value,
            '<' => fn ($row) => $row[$column] < $value,
        };
        return $this;
    }

    public function execute(): void
    {
        Tables::with(function (array &$tables) {
            $rows = &$tables[$this->table];
            $met = array_filter($rows,
                fn ($row) => array_product(array_map(fn ($is) => $is($row), $this->conditions)));
            if ($this->kind === 'delete') {
                $rows = array_values(array_diff_key($rows, $met));
                return;
            }
            if ($this->kind === 'merge' && !$met) {
                $rows[] = $this->key + $this->fields;
            }
            foreach (array_keys($met) as $i) {
                $rows[$i] = $this->fields + $rows[$i];
            }
        });
    }
}

class Result
{
    public function __construct(private array $rows)
    {
    }

    public function fetchObject(): object|false
    {
        return $this->rows ? (object) $this->rows[0] : false;
    }

    public function fetchField(): mixed
    {
        return $this->rows ? current($this->rows[0]) : false;
    }

    public function fetchAll(): array
    {
        return array_map(fn ($row) => (object) $row, $this->rows);
    }

    public function fetchAllKeyed(): array
    {
        return array_column($this->rows, 'name', 'rid');
    }
}

/** SELECT COLUMN, .. FROM {TABLE} [A] [INNER JOIN {TABLE} B ON ..] WHERE COLUMN = :NAME [AND ..] */
function db_query(string $sql, array $arguments): Result
{
    preg_match('/^SELECT (.*) FROM (.*) WHERE (.*)$/', $sql, $parts)
        || throw new Exception("no such query here: $sql");
    [, $columns, $from, $where] = $parts;
    preg_match_all('/\{(\w+)\}/', $from, $names);
    $rows = Tables::with(function (array $tables) use ($names) {
        $rows = [[]];
        foreach ($names[1] as $name) {
            $joined = [];
            foreach ($rows as $left) {
                foreach ($tables[$name] as $right) {
                    // The joins of Drupal's schema compare equal columns.
                    if (array_intersect_key($left, $right) == array_intersect_key($right, $left)) {
                        $joined[] = $left + $right;
                    }
                }
            }
            $rows = $joined;
        }
        return $rows;
    });
    foreach (explode(' AND ', $where) as $condition) {
        preg_match('/^(?:\w\w?\.)?(\w+) (=|<>) (:?\w+)$/', $condition, $parts)
            || throw new Exception("no such condition here: $condition");
        [, $column, $operator, $value] = $parts;
        $value = $arguments[$value] ?? $value;
        $rows = array_filter($rows, fn ($row) => ($row[$column] == $value) === ($operator === '='));
    }
    if (!str_contains($columns, '*')) {
        $wanted = array_flip(preg_split('/, /', preg_replace('/\w+\./', '', $columns)));
        $rows = array_map(fn ($row) => array_replace($wanted, array_intersect_key($row, $wanted)),
            $rows);
    }
    return new Result(array_values($rows));
}

function db_merge(string $table): Change
{
    empty($GLOBALS['fails']) || throw new Exception('the database is down');
    return new Change('merge', $table);
}

function db_update(string $table): Change
{
    return new Change('update', $table);
}

function db_delete(string $table): Change
{
    return new Change('delete', $table);
}
