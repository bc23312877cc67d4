<?php
// The tests for Drupal 7 only; client.php has the others, and get().

/** As in a browser, the secure cookie is not sent over HTTP. */
function over_http(string $page, array &$cookies): string
{
    $secure = array_filter($cookies, fn ($name) => str_starts_with($name, 'SS'),
        ARRAY_FILTER_USE_KEY);
    $sent = array_diff_key($cookies, $secure);
    $body = get("mixed/$page", $sent);
    $cookies = $sent + $secure;
    return $body;
}

function over_https(string $page, array &$cookies): string
{
    return get("mixed/https/$page", $cookies);
}

function visitors_without_data_get_no_session(): void
{
    $cookies = [];
    same('nobody', get('user', $cookies), 'the user');
    same('nobody', over_https('user', $cookies), 'the user');
    $cookies === [] || fail('a visitor for whom nothing is stored gets a cookie');
    get('count', $cookies);
    same('SESSshop', implode(', ', array_keys($cookies)),
        'the cookies of a visitor for whom something is stored');
    get('clear', $cookies);
    $cookies === [] || fail('the cookie of an emptied session stays');
}

function a_user_has_roles_and_one_row(): void
{
    $cookies = $nobody = [];
    get('login', $cookies);
    same('authenticated user, editor', get('roles', $cookies), 'the roles');
    same('1', get('rows', $nobody), 'the rows');
    get('login', $cookies);
    get('count', $cookies);
    same('1', get('rows', $nobody), 'the rows after another log-in');
    get('logout', $cookies);
    same('0', get('rows', $nobody), 'the rows after a log-out');
}

function a_message_at_a_log_out_is_kept_in_another_session(): void
{
    $cookies = [];
    get('login', $cookies);
    $before = $cookies;
    get('logout_with_message', $cookies);
    $cookies !== $before || fail('the id stays at a log-out');
    same('20', get('look', $cookies), 'the message');
    same('nobody', get('user', $cookies), 'the user');
    same('0', get('look', $before), 'the message under the old id');
}

function all_sessions_of_a_user_end_and_no_others(): void
{
    $here = $there = $visitor = [];
    get('login', $here);
    get('login', $there);
    get('count', $visitor);
    get('revoke', $visitor);
    same('nobody', get('user', $here), 'the user of a session that was ended');
    same('nobody', get('user', $there), 'the user of another session that was ended');
    same('10', get('look', $visitor), 'the session of somebody else');
    same('0', get('rows', $visitor), 'the rows');
}

/** The owner of a session is the user who is logged in, without code. */
function the_sessions_of_a_user_are_known_to_the_store(): void
{
    $here = $there = $visitor = [];
    get('login', $here);
    get('login', $there);
    get('count', $visitor);
    same('yes', get('end', $visitor), 'whether both sessions ended');
    same('nobody', get('user', $here), 'the user of a session that was ended');
    same('nobody', get('user', $there), 'the user of another session that was ended');
}

function a_new_password_ends_the_other_sessions(): void
{
    $here = $there = [];
    get('login', $here);
    get('count', $here);
    get('login', $there);
    get('password', $here);
    same('anna', get('user', $here), 'the user who has changed the password');
    same('1', get('look', $here), 'the data of that session');
    same('nobody', get('user', $there), 'the user of the other session');
    get('logout', $here);
}

function a_blocked_user_is_nobody(): void
{
    $cookies = [];
    get('login', $cookies);
    get('count', $cookies);
    get('block', $cookies);
    same('nobody', get('user', $cookies), 'the user');
    same('0', get('look', $cookies), 'the data');
    get('unblock', $cookies);
    get('revoke', $cookies);
}

function what_is_not_to_be_saved_is_not_saved(): void
{
    $cookies = [];
    get('count', $cookies);
    get('unsaved', $cookies);
    same('1', get('look', $cookies), 'the data');
}

function a_store_that_does_not_answer_makes_nobody_of_no_one(): void
{
    $cookies = [];
    get('login', $cookies);
    same('refused', get('outage', $cookies), 'the page');
    same('anna', get('user', $cookies), 'the user afterwards');
    get('logout', $cookies);
}

function rows_are_collected_unless_they_are_in_use(): void
{
    $here = $there = $nobody = [];
    get('login', $here);
    get('login', $there);
    get('age', $nobody);
    same('anna', get('user', $here), 'the user');
    get('age', $nobody);
    get('gc', $here);
    same('1', get('rows', $nobody), 'the rows');
    same('anna', get('user', $here), 'the user');
    get('logout', $here);
}

function visitors_have_one_session_over_http_and_https(): void
{
    $cookies = [];
    same('1', over_http('count', $cookies), 'the counter over HTTP');
    same('2', over_https('count', $cookies), 'the counter over HTTPS');
    same('3', over_http('count', $cookies), 'the counter over HTTP');
    $cookies = [];
    same('1', over_https('count', $cookies), 'the counter over HTTPS');
    same('SESSshop, SSESSshop', implode(', ', array_keys($cookies)), 'the cookies');
    same('2', over_http('count', $cookies), 'the counter over HTTP');
    same('3', over_https('count', $cookies), 'the counter over HTTPS');
}

function a_log_in_over_https_holds_over_http_and_needs_the_secure_cookie(): void
{
    $cookies = [];
    over_http('count', $cookies);
    over_https('count', $cookies);
    $before = $cookies;
    over_https('login', $cookies);
    array_intersect_assoc($before, $cookies) === [] || fail('an id stays at a log-in');
    same('anna', over_https('user', $cookies), 'the user over HTTPS');
    same('anna', over_http('user', $cookies), 'the user over HTTP');
    same('3', over_http('count', $cookies), 'the counter');
    same('4', over_https('count', $cookies), 'the counter');
    $stolen = ['SESSshop' => $cookies['SESSshop']];
    same('nobody', over_https('user', $stolen), 'the user over HTTPS without the secure cookie');
    same('nobody', over_http('user', $before), 'the user of the old id');
    same('0', over_https('look', $before), 'the data of the old id');
    $stolen = $cookies;
    over_http('logout', $cookies);
    !isset($cookies['SESSshop']) || fail('the cookie is left by a log-out');
    same('nobody', over_https('user', $stolen), 'the user after a log-out over HTTP');
    same('0', over_http('rows', $cookies), 'the rows');
}

function a_log_in_after_the_session_was_closed_leaves_nothing_of_it(): void
{
    $cookies = [];
    over_http('count', $cookies);
    $before = $cookies;
    over_https('closed_login', $cookies);
    same('anna', over_https('user', $cookies), 'the user');
    same('1', over_https('look', $cookies), 'the data');
    same('0', over_http('look', $before), 'the data of the old id');
    over_https('logout', $cookies);
}

function a_log_in_that_is_not_saved_loses_nothing(): void
{
    $cookies = [];
    over_http('count', $cookies);
    over_https('become', $cookies);
    same('1', over_http('look', $cookies), 'the data');
    same('nobody', over_http('user', $cookies), 'the user');
}

function a_log_in_over_http_is_none_over_https(): void
{
    $cookies = [];
    over_http('login', $cookies);
    over_http('count', $cookies);
    same('nobody', over_https('user', $cookies), 'the user over HTTPS');
    same('1', over_https('count', $cookies), 'the counter over HTTPS');
    same('anna', over_http('user', $cookies), 'the user over HTTP');
    same('1', over_http('look', $cookies), 'the counter over HTTP');
    over_http('logout', $cookies);
}

return ['visitors_without_data_get_no_session', 'a_user_has_roles_and_one_row',
    'a_message_at_a_log_out_is_kept_in_another_session', 'all_sessions_of_a_user_end_and_no_others',
    'the_sessions_of_a_user_are_known_to_the_store',
    'a_new_password_ends_the_other_sessions', 'a_blocked_user_is_nobody',
    'what_is_not_to_be_saved_is_not_saved',
    'a_store_that_does_not_answer_makes_nobody_of_no_one',
    'rows_are_collected_unless_they_are_in_use',
    'visitors_have_one_session_over_http_and_https',
    'a_log_in_over_https_holds_over_http_and_needs_the_secure_cookie',
    'a_log_in_after_the_session_was_closed_leaves_nothing_of_it',
    'a_log_in_that_is_not_saved_loses_nothing', 'a_log_in_over_http_is_none_over_https'];
