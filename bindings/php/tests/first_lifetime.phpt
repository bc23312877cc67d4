--TEST--
sessile.first_lifetime ends a session that is used once; sessile_set_lifetime says another time
--INI--
sessile.first_lifetime=2
--FILE--
<?php
require __DIR__ . '/common.inc';
[$once, $twice, $owned, $remembered, $short] = array_map(fn () => fresh_id(), range(1, 5));
function visit(string $id, ?callable $more = null): void
{
    start($id);
    $_SESSION['a'] = 1;
    $more && var_dump($more());
    session_write_close();
}
visit($once);
visit($twice);
visit($owned, fn () => sessile_set_owner('17'));
visit($remembered, fn () => sessile_set_lifetime(60));
visit($twice);
visit($short);
visit($short, fn () => sessile_set_lifetime(0.5));
// A log-in that is remembered, in either order.
$logged_in = [];
foreach ([true, false] as $before) {
    visit($logged_in[] = fresh_id(), function () use ($before, &$logged_in) {
        $before && sessile_set_lifetime(60);
        $new = session_regenerate_id(true);
        $before || sessile_set_lifetime(60);
        $logged_in[count($logged_in) - 1] = session_id();
        return $new;
    });
}
usleep(2300000);
foreach ([$once, $twice, $owned, $remembered, $short, ...$logged_in] as $id) {
    echo count(stored($id)), "\n";
}
var_dump(@sessile_set_lifetime(1));
try {
    sessile_set_lifetime(0);
} catch (ValueError $error) {
    echo $error->getMessage(), "\n";
}
?>
--EXPECT--
bool(true)
bool(true)
bool(true)
bool(true)
bool(true)
0
1
1
1
0
1
1
bool(false)
sessile_set_lifetime(): Argument #1 ($seconds) must be a number of seconds from 0.001 to 315360000
