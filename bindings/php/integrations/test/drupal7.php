<?php
// sessile.inc with stand-ins for Drupal 7's functions, and pages for client.php. In a path, `https`
// selects an HTTPS request and `mixed` sets Drupal's variable https. Not shown: whether Drupal's
// bootstrap and modules call these functions.

require __DIR__ . '/drupal7_database.php';

const DRUPAL_AUTHENTICATED_RID = 2;
define('REQUEST_TIME', $_SERVER['REQUEST_TIME']);
$path = explode('/', trim($_SERVER['REQUEST_URI'], '/'));
$page = end($path);
$is_https = in_array('https', $path, true);
$conf = ['https' => in_array('mixed', $path, true)];

function variable_get(string $name, mixed $default): mixed
{
    return $GLOBALS['conf'][$name] ?? $default;
}

function drupal_is_cli(): bool
{
    return false;
}

function drupal_hash_base64(string $data): string
{
    return rtrim(strtr(base64_encode(hash('sha256', $data, true)), '+/', '-_'), '=');
}

function drupal_random_key(): string
{
    return drupal_hash_base64(random_bytes(32));
}

function drupal_anonymous_user(): object
{
    return (object) ['uid' => 0, 'roles' => [1 => 'anonymous user'], 'cache' => 0];
}

function drupal_page_is_cacheable(bool $is): void
{
    header('X-Cacheable: ' . (int) $is);
}

function drupal_get_user_timezone(): string
{
    return 'UTC';
}

function ip_address(): string
{
    return '127.0.0.1';
}

function _drupal_cookie_params(array $params): array
{
    return $params + ['samesite' => 'Lax'];
}

function drupal_setcookie(string $name, string $value, array $options): void
{
    setcookie($name, $value, _drupal_cookie_params($options));
}

ob_start();
foreach (['gc_maxlifetime' => 6, 'gc_probability' => 1, 'gc_divisor' => 1,
    'cookie_secure' => $is_https] as $name => $value) {
    ini_set("session.$name", $value);
}
session_name(($is_https ? 'SSESS' : 'SESS') . 'shop');
if ($page === 'outage') {
    ini_set('session.save_path', 'redis://127.0.0.1:1');
}
require dirname(__DIR__) . '/drupal7/sessile.inc';
try {
    drupal_session_initialize();
} catch (RuntimeException $e) {
    exit('refused');
}
$rows = fn () => Tables::with(fn ($tables) => count($tables['sessions']));
$set = fn (string $table, array $fields) =>
    (new Change('update', $table))->fields($fields)->execute();
switch ($page) {
    case 'count':
        $_SESSION['n'] = ($_SESSION['n'] ?? 0) + 1;
        usleep(5_000);
        break;
    case 'clear':
        $_SESSION = [];
        break;
    case 'closed_login':
        // Some modules close the session before long work.
        session_write_close();
        // no break
    case 'login':
        $user = db_query('SELECT u.* FROM {users} u WHERE u.uid = :uid',
            [':uid' => 1])->fetchObject();
        drupal_session_regenerate();
        break;
    case 'become':
        $user = db_query('SELECT u.* FROM {users} u WHERE u.uid = :uid',
            [':uid' => 1])->fetchObject();
        $fails = true;
        break;
    case 'logout':
        session_destroy();
        break;
    case 'logout_with_message':
        session_destroy();
        $_SESSION['n'] = 20;
        break;
    case 'revoke':
        // During a request of the user: this one.
        drupal_session_destroy_uid(1);
        $_SESSION['n'] = 10;
        break;
    case 'end':
        $ended = sessile_revoke('1') >= 2;
        break;
    case 'password':
        drupal_session_destroy_uid($user->uid);
        drupal_session_regenerate();
        break;
    case 'unsaved':
        drupal_save_session(false);
        $_SESSION['n'] = 30;
        break;
    case 'block':
    case 'unblock':
        $set('users', ['status' => (int) ($page === 'unblock')]);
        break;
    case 'age':
        // More than the update interval of a row, less than the lifetime.
        Tables::with(function (&$tables) {
            foreach ($tables['sessions'] as &$row) {
                $row['timestamp'] -= 183;
            }
        });
        break;
    case 'gc':
        _drupal_session_garbage_collection(6);
        break;
}
$answers = ['user' => $user->name ?? 'nobody', 'roles' => implode(', ', $user->roles ?? []),
    'look' => $_SESSION['n'] ?? 0,
    'end' => ($ended ?? false) ? 'yes' : 'no',
    'count' => $_SESSION['n'] ?? 0];
drupal_session_commit();
echo $page === 'rows' ? $rows() : $answers[$page] ?? 'done';
