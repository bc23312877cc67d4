--TEST--
a worker keeps the stores of eight paths open, and closes the one that was used longest ago
--FILE--
<?php
require __DIR__ . '/common.inc';
// What is in a store of this process's memory is gone when it is closed.
function path(int $number): string
{
    return 'memory:?payload_bytes_max=' . (1000 + $number);
}
function there(int ...$numbers): void
{
    global $id;
    foreach ($numbers as $number) {
        session_save_path(path($number));
        echo $number, ' ', json_encode(stored($id)), "\n";
    }
}
function put(int ...$numbers): void
{
    global $id;
    foreach ($numbers as $number) {
        session_save_path(path($number));
        start($id);
        $_SESSION['n'] = $number;
        session_write_close();
    }
}
$id = fresh_id();
put(1, 2, 3, 4, 5, 6, 7, 8);
there(3, 2, 1, 4, 5, 6, 7, 8);
// One that cannot be opened takes no place.
session_save_path('redis+unix:/none');
var_dump(@start($id));
echo "the ninth\n";
put(9);
there(2, 1, 8, 9);
there(3);
?>
--EXPECT--
3 {"n":3}
2 {"n":2}
1 {"n":1}
4 {"n":4}
5 {"n":5}
6 {"n":6}
7 {"n":7}
8 {"n":8}
bool(false)
the ninth
2 {"n":2}
1 {"n":1}
8 {"n":8}
9 {"n":9}
3 []
