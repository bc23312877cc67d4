--TEST--
sessile.concurrency = merge: parallel requests wait for nobody, and the changes of all stay
--INI--
sessile.concurrency = merge
--FILE--
<?php
require __DIR__ . '/common.inc';
$merge = 'ini_set("sessile.concurrency", "merge");';
foreach (['php', 'php_serialize'] as $serializer) {
    ini_set('session.serialize_handler', $serializer);
    $set = $merge . "ini_set('session.serialize_handler', '$serializer');";
    $id = fresh_id();
    start($id);
    $_SESSION = ['_sf2_attributes' => ['user' => 'u', 'gone' => 1, 'count' => 0]];
    session_write_close();

    // A request that is under way while others come and go.
    $change = '$_SESSION["_sf2_attributes"]["slow"] = new ArrayObject([1]);
        $_SESSION["_sf2_attributes"]["count"] = 1; unset($_SESSION["_sf2_attributes"]["gone"]);';
    $slow = child("$set start(\$argv[1]); fwrite(STDOUT, \"open\\n\"); fgets(STDIN); $change session_write_close();
        echo json_encode(sessile_counters()['merge_conflicts']);", $id);
    fgets($slow->out);
    $code = "$set for (\$i = 0; \$i < 50; \$i++) { start(\$argv[1]); \$_SESSION['_sf2_attributes'][\$argv[2]][\$i] = \$i;
        \$_SESSION['_sf2_attributes'][\$argv[2]]['last'] = \$i; session_write_close(); }";
    $children = array_map(fn ($name) => child($code, $id, $name), ['a', 'b', 'c', 'd']);
    foreach ($children as $child) {
        echo finish($child);
    }
    start($id);
    $_SESSION['_sf2_attributes']['count'] = 7;
    session_write_close();
    fwrite($slow->in, "\n");
    echo 'conflicts: ', finish($slow), "\n";

    $now = stored($id)['_sf2_attributes'];
    ksort($now);
    foreach ($now as $name => $value) {
        echo $name, ' ', is_array($value) ? count($value) : json_encode($value), "\n";
    }
}
ini_set('session.serialize_handler', 'php');

// The second of two changes may fail.
ini_set('sessile.merge_conflict', 'fail');
$id = fresh_id();
start($id);
$_SESSION['stock'] = 5;
session_write_close();
start($id);
$_SESSION['stock']--;
echo finish(child("$merge start(\$argv[1]); \$_SESSION['stock']--; session_write_close();", $id));
session_write_close();
echo "\n", stored($id)['stock'], "\n";

// A new id: both changes, and the old one shows the past.
ini_set('sessile.merge_conflict', 'last');
$id = fresh_id();
start($id);
$_SESSION['cart'] = 1;
session_write_close();
start($id);
echo finish(child("$merge start(\$argv[1]); \$_SESSION['other'] = 2; session_write_close();", $id));
session_regenerate_id();
$_SESSION['user'] = 3;
$new = session_id();
session_write_close();
echo json_encode(stored($new)), json_encode(stored($id)), "\n";

// Shared references, and serialisers that cannot be split: requests take turns.
start($id = fresh_id());
$_SESSION['a'] = 1;
$_SESSION['b'] = &$_SESSION['a'];
session_write_close();
start($id);
$wait = $merge . 'ini_set("sessile.lock_wait", "0.05"); echo (int) @start($argv[1]);';
echo 'beside a reference: ', finish(child($wait, $id)), "\n";
session_write_close();
ini_set('session.serialize_handler', 'php_binary');
start($id = fresh_id());
$_SESSION['a'] = 1;
session_write_close();
start($id);
echo 'beside php_binary: ', finish(child($wait, $id)), "\n";
session_write_close();
var_dump(ini_set('sessile.concurrency', 'none'));
?>
--EXPECTF--
conflicts: 1
a 51
b 51
c 51
count 1
d 51
slow {"0":1}
user "u"
conflicts: 1
a 51
b 51
c 51
count 1
d 51
slow {"0":1}
user "u"

Warning: session_write_close(): %s: cannot commit session #%x: nothing is saved: another request has changed the same values: stock; send the request again in %s on line %d

Warning: session_write_close(): Failed to write session data (sessile). %s in %s on line %d

4
{"cart":1,"other":2,"user":3}{"cart":1,"other":2}
beside a reference: 0
beside php_binary: 0

Warning: ini_set(): sessile.concurrency is exclusive or merge in %s on line %d
bool(false)
