<?php
// The form actions. Each changes $_SESSION and returns the next page; index.php stores the session.
declare(strict_types=1);

const PIECES_MAX = 99;
const NAME_BYTES_MAX = 80;

/** A field of the form; PHP makes an array of a field named "name[]". */
function posted(string $name): string
{
    $value = $_POST[$name] ?? '';
    return is_string($value) ? $value : '';
}

function accepts_json(): bool
{
    return str_contains($_SERVER['HTTP_ACCEPT'] ?? '', 'application/json');
}

/**
 * Whether the form came from this shop. A visitor with a session sends its token. Without a session
 * another site could only log the visitor in as somebody else: the browser's Origin must match.
 */
function is_own_form(): bool
{
    if (isset($_SESSION['token'])) {
        return hash_equals($_SESSION['token'], posted('token'));
    }
    $host = $_SERVER['HTTP_HOST'] ?? '';
    return in_array($_SERVER['HTTP_ORIGIN'] ?? '', ["http://$host", "https://$host"], true);
}

function add(): string
{
    $product = posted('product');
    if (isset(PRODUCTS[$product])) {
        $_SESSION['cart'][$product] = min(PIECES_MAX, (cart()[$product] ?? 0) + 1);
    }
    return '/';
}

function remove(): string
{
    unset($_SESSION['cart'][posted('product')]);
    return '/cart';
}

/** Without a password: authentication is not part of this example. */
function log_in(): string
{
    $name = trim(posted('name'));
    if ($name === '' || strlen($name) > NAME_BYTES_MAX) {
        return '/login';
    }
    // The cart moves to a new id. With true the old id, which an attacker may have planted, ends at
    // once.
    session_regenerate_id(true);
    $_SESSION['token'] = bin2hex(random_bytes(16));
    $_SESSION['name'] = $name;
    return '/';
}

/** Final: a concurrent request does not bring the session back. */
function log_out(): string
{
    session_destroy();
    $_SESSION = [];
    $cookie = session_get_cookie_params();
    unset($cookie['lifetime']);
    setcookie(session_name(), '', ['expires' => 1] + $cookie);
    return '/';
}

function count_up(): string
{
    $count = $_SESSION['count'] ?? 0;
    // Simulates work. Without the lock, concurrent requests would read the same number.
    usleep(20_000);
    $_SESSION['count'] = $count + 1;
    return '/handler';
}
