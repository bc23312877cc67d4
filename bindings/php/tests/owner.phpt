--TEST--
the sessions of a user are ended everywhere, but for the open one
--INI--
session.save_handler=sessile
session.use_cookies=0
session.cache_limiter=
--FILE--
<?php
$dir = sys_get_temp_dir() . '/sessile-owner-' . getmypid();
session_save_path('files:' . $dir);
function login(string $id, ?string $owner): void
{
    session_id($id);
    session_start();
    $_SESSION['cart'] = $id;
    if ($owner !== null) {
        session_regenerate_id();
        var_dump(sessile_set_owner($owner));
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
