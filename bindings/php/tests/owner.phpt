--TEST--
the sessions of a user are ended everywhere, but for the open one
--INI--
session.save_handler=sessile
session.use_cookies=0
session.cache_limiter=
--FILE--
<?php
ob_start(); // an id changes only before anything is sent
$dir = sys_get_temp_dir() . '/sessile-owner-' . getmypid();
session_save_path('files:' . $dir);
function login(string $id, ?string $owner, bool $delete = false, bool $before = false): void
{
    session_id($id);
    session_start();
    $_SESSION['cart'] = $id;
    if ($owner !== null) {
        // In either order.
        $before && var_dump(sessile_set_owner($owner));
        session_regenerate_id($delete);
        $before || var_dump(sessile_set_owner($owner));
    }
    session_write_close();
}
login('first', '17');
$first = session_id();
login('second', '17');
$second = session_id();
login('other', '18');
$other = session_id();
login('nobody', null);

// The owner stays, and a request that changes nothing else may take it away.
session_id($second);
session_start();
$_SESSION['cart'] = 'changed';
session_write_close();
session_id($other);
session_start();
sessile_set_owner(null);
session_write_close();

session_id($first);
session_start();
var_dump(sessile_revoke('17', true), sessile_revoke('18'));
$_SESSION['cart'] = 'still here';
session_write_close();
foreach ([$first, $second, $other, 'nobody'] as $id) {
    session_id($id);
    session_start(['read_and_close' => true]);
    var_dump($_SESSION['cart'] ?? null);
}
var_dump(@sessile_set_owner('17'));

// An owner that is set before the id changes goes with the session.
foreach ([[false, false], [false, true], [true, false], [true, true]] as [$delete, $before]) {
    login('again', '19', $delete, $before);
    $kept = session_id();
    login('more', '19', $delete, $before);
    session_id($kept);
    session_start();
    var_dump(sessile_revoke('19', true));
    session_write_close();
    session_start();
    var_dump(sessile_revoke('19'));
    session_write_close();
}

// A late request knows the session by the id of before: it is the open one all the same.
login('late', null);
login('late', '20');
session_id('late');
session_start();
var_dump(sessile_revoke('20', true));
session_write_close();
session_id('late');
session_start();
var_dump($_SESSION['cart']);
session_write_close();

// What was not saved is given up by a reset, and so is the owner.
login('reset', null);
session_id('reset');
session_start();
sessile_set_owner('21');
session_reset();
$_SESSION['cart'] = 'after';
session_write_close();
session_start();
var_dump(sessile_revoke('21'));
session_write_close();
exec('rm -rf ' . escapeshellarg($dir));
?>
--EXPECT--
bool(true)
bool(true)
bool(true)
int(1)
int(0)
string(10) "still here"
NULL
string(5) "other"
string(6) "nobody"
bool(false)
bool(true)
bool(true)
int(1)
int(1)
bool(true)
bool(true)
int(1)
int(1)
bool(true)
bool(true)
int(1)
int(1)
bool(true)
bool(true)
int(1)
int(1)
bool(true)
int(0)
string(4) "late"
int(0)
