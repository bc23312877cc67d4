--TEST--
a request that a log-out has overtaken gets its new id, without a noise, and saves nothing under it
--FILE--
<?php
require __DIR__ . '/common.inc';
class Shop extends SessionHandler
{
}
function log_out(string $id): void
{
    finish(child('ini_set("sessile.read_only", "1"); start($argv[1]); session_destroy();', $id));
}

/** The session of a user, after a log-out in another request. */
function logged_out(): string
{
    $id = fresh_id();
    start($id);
    $_SESSION['user'] = 1;
    session_write_close();
    start($id);
    log_out($id);
    return $id;
}
foreach (['exclusive', 'merge', 'below a handler'] as $how) {
    ini_set('sessile.concurrency', $how === 'merge' ? 'merge' : 'exclusive');
    if ($how === 'below a handler') {
        session_set_save_handler(new Shop(), true);
    }
    foreach ([true, false] as $deletes) {
        $counted = sessile_counters()['destroyed_commits'] ?? 0;
        $old = logged_out();
        $result = session_regenerate_id($deletes);
        $first = session_id();
        // And once more.
        $again = session_regenerate_id($deletes);
        $new = session_id();
        $_SESSION['late'] = 2;
        $saved = session_write_close();
        echo "$how: ", json_encode([$result, $again, $saved, count(array_unique([$old, $first, $new]))]), ' ',
            sessile_counters()['destroyed_commits'] - $counted, ' ',
            json_encode([stored($old), stored($first), stored($new)]), "\n";
        // The new id is as good as any other.
        start($new);
        $_SESSION['visit'] = 1;
        session_write_close();
        echo json_encode(stored($new)), "\n";
    }
}
// An application that has cleared its session begins a new one.
foreach (['exclusive', 'merge'] as $how) {
    ini_set('sessile.concurrency', $how);
    foreach ([true, false] as $deletes) {
        logged_out();
        $_SESSION = [];
        session_regenerate_id($deletes);
        $_SESSION['message'] = 'bye';
        session_write_close();
        $new = session_id();
        echo json_encode(stored($new)), "\n";
    }
}
// What is opened anew in the request is a new session.
logged_out();
session_regenerate_id(true);
session_reset();
echo json_encode($_SESSION), ' ';
$_SESSION['new'] = 1;
$new = session_id();
session_write_close();
echo json_encode(stored($new)), "\n";
?>
--EXPECT--
exclusive: [true,true,true,3] 1 [[],[],[]]
{"visit":1}
exclusive: [true,true,true,3] 1 [[],[],[]]
{"visit":1}
merge: [true,true,true,3] 1 [[],[],[]]
{"visit":1}
merge: [true,true,true,3] 1 [[],[],[]]
{"visit":1}
below a handler: [true,true,true,3] 1 [[],[],[]]
{"visit":1}
below a handler: [true,true,true,3] 1 [[],[],[]]
{"visit":1}
{"message":"bye"}
{"message":"bye"}
{"message":"bye"}
{"message":"bye"}
[] {"new":1}
