<?php
// Visits an open shop, of this or another language, as a browser, and judges the answers:
// php visit.php http://HOST:PORT [COOKIE]
declare(strict_types=1);

$shop = $argv[1];
$cookie_name = $argv[2] ?? 'PHPSESSID';

/**
 * Status, body and session cookie of an answer. cookie is null if none came, '' if it was deleted.
 */
function ask(string $path, string $cookie = '', ?array $fields = null,
    ?string $origin = null): array
{
    return answer(stream_get_contents(request($path, $cookie, $fields, $origin)));
}

/** Sends a request, and leaves the answer in the stream. */
function request(string $path, string $cookie, ?array $fields, ?string $origin = null)
{
    global $shop, $cookie_name;
    $body = http_build_query($fields ?? []);
    $stream = stream_socket_client(str_replace('http:', 'tcp:', $shop), $code, $why, 5)
        ?: fail("the shop does not answer: $why");
    stream_set_timeout($stream, 10);
    fwrite($stream, implode("\r\n", [
        ($fields === null ? 'GET' : 'POST') . " $path HTTP/1.1", 'Host: ' . substr($shop, 7),
        'Connection: close',
        $origin === '' ? 'Accept: */*' : 'Origin: ' . ($origin ?? $shop),
        $cookie === '' ? 'Accept: */*' : "Cookie: $cookie_name=$cookie",
        'Content-Type: application/x-www-form-urlencoded', 'Content-Length: ' . strlen($body), '',
        $body,
    ]));
    return $stream;
}

function answer(string $text): array
{
    global $cookie_name;
    [$head, $body] = explode("\r\n\r\n", $text, 2) + ['', ''];
    preg_match('/^HTTP\S+ (\d+)/', $head, $status) || fail('no answer');
    $set = preg_match_all("/^Set-Cookie: $cookie_name=([^;\r]*)([^\r]*)/mi", $head, $cookies);
    $cookie = $set ? end($cookies[1]) : null;
    if ($set) {
        $rest = end($cookies[2]);
        $gone = preg_match('/; expires=([^;]*)/i', $rest, $end) && strtotime($end[1]) <= time();
        $cookie = $gone ? '' : $cookie;
        preg_match('/; HttpOnly/i', $rest) && preg_match('/; SameSite=Lax/i', $rest) || $gone
            || fail('a cookie is open to scripts or other sites');
    }
    return ['status' => (int) $status[1], 'body' => $body, 'cookie' => $cookie];
}

function fail(string $why): never
{
    fwrite(STDERR, "failed: $why\n");
    exit(1);
}

function check(bool $holds, string $why): void
{
    $holds || fail($why);
}

function token(string $cookie): string
{
    preg_match('/name="token" value="([0-9a-f]{32})"/', ask('/cart', $cookie)['body'], $match)
        || fail('a form has no token');
    return $match[1];
}

function has_anchor(string $cookie): bool
{
    $body = ask('/cart', $cookie)['body'];
    check(str_contains($body, 'Anchor') !== str_contains($body, 'It is empty'),
        'the cart is neither full nor empty');
    return str_contains($body, 'Anchor');
}

foreach (['/', '/cart', '/login', '/handler'] as $path) {
    $page = ask($path);
    check($page['status'] === 200 && str_contains($page['body'], 'No session.'),
        "$path does not open for a new visitor");
    check($page['cookie'] === null, "$path sends a cookie to a visitor who left nothing");
}
check(ask('/nowhere')['status'] === 404, 'a page that is not there is there');
foreach (['http://elsewhere.example', ''] as $origin) {
    $forged = ask('/add', '', ['product' => 'anchor'], $origin);
    check($forged['status'] === 403 && $forged['cookie'] === null,
        'a form of another site begins a session');
}

$planted = str_repeat('a', 32);
$guest = ask('/add', $planted, ['product' => 'anchor']);
check($guest['status'] === 303 && $guest['cookie'] !== null && $guest['cookie'] !== $planted,
    'the first product brings no id of its own');
$guest = $guest['cookie'];
check(has_anchor($guest) && !has_anchor($planted), 'the cart does not hold what was put into it');
check(ask('/remove', $guest, ['product' => 'anchor'])['status'] === 403 && has_anchor($guest),
    'a form without token is obeyed');
echo "visitors: no cookie before the first product, forged forms refused\n";

$login = ask('/log-in', $guest, ['token' => token($guest), 'name' => '<b>Ada']);
$ada = $login['cookie'] ?? fail('the id stays at log-in');
check($ada !== $guest && $ada !== '', 'the id stays at log-in');
check(has_anchor($ada), 'the cart is lost at log-in');
check(!has_anchor($guest), 'the id from before the log-in is still good');
check(str_contains(ask('/', $ada)['body'], 'Hello, &lt;b&gt;Ada'),
    'the name is not shown as it was typed');
echo "log-in: another id, the same cart\n";

$token = token($ada);
$streams = [];
for ($i = 0; $i < 8; $i++) {
    $streams[] = request('/count', $ada, ['token' => $token]);
}
foreach ($streams as $stream) {
    check(answer(stream_get_contents($stream))['status'] === 303, 'a request of eight is refused');
}
preg_match('~id="counter">(\d+)<.*dt>Median</dt><dd>[\d.]+ &micro;s~s',
    ask('/handler', $ada)['body'], $counter);
check(($counter[1] ?? '') === '8', 'eight at once count ' . ($counter[1] ?? 'nothing'));
check(has_anchor($ada), 'the measurement changes the session of the visitor');
echo "eight at once: all counted\n";

check(ask('/log-out', $ada, ['token' => token($ada)])['cookie'] === '',
    'log-out leaves the cookie');
check(!has_anchor($ada), 'the cookie from before the log-out brings the cart back');
check((ask('/add', $ada, ['product' => 'anchor'])['cookie'] ?? '') !== '',
    'the session lives on after the log-out');
echo "log-out: the old cookie brings nothing back\n";
