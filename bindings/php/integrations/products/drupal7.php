<?php
// The checks of Drupal 7 with this project's session functions. The user is admin, uid 1.

const NAME_FIELD = './/input[@name="name"]';
const PARALLEL_PAGES = 48;

function drupal(string $path, string $scheme = 'http'): string
{
    return "$scheme:/drupal/index.php?q=$path";
}

function drupal_log_in(Browser $browser, string $password = 'secret', string $scheme = 'http'): Page
{
    return $browser->submit($browser->get(drupal('user', $scheme)), NAME_FIELD,
        ['name' => 'admin', 'pass' => $password, 'op' => 'Log in']);
}

function drupal_logged_in(): Browser
{
    $browser = browser();
    $page = drupal_log_in($browser);
    expect($page->has('user/logout'), 'the log-in fails', $page);
    return $browser;
}

function drupal_knows(Browser $browser, string $scheme = 'http'): bool
{
    $page = $browser->get(drupal('node', $scheme));
    expect($page->status === 200, 'no page', $page);
    return $page->has('user/logout');
}

/** Requests PARALLEL_PAGES pages at a time; `path` gives that of each number from 1 on. */
function drupal_parallel(Browser $browser, callable $path): void
{
    $paths = array_map(fn ($number) => drupal($path($number)), range(1, PARALLEL_PAGES));
    foreach ($browser->get_all($paths) as $page) {
        expect($page->status === 200 && $page->has('user/logout'), 'logged out', $page);
    }
}

/** Changes the password in this browser. */
function drupal_change_password(Browser $browser, string $old, string $new): void
{
    $page = $browser->submit($browser->get(drupal('user/1/edit')), './/input[@name="pass[pass1]"]',
        ['current_pass' => $old, 'pass[pass1]' => $new, 'pass[pass2]' => $new, 'op' => 'Save']);
    expect($page->has('The changes have been saved'), 'the password stays', $page);
}

return [
    'a visitor without data has no cookie' => function () {
        $browser = browser();
        $page = $browser->get(drupal('node'));
        expect($page->status === 200 && $page->has('Shop'), 'no page', $page);
        expect($browser->cookies === [], 'a cookie is set');
    },
    'a visitor has data before a log-in, and after it' => function () {
        $browser = browser();
        $browser->get(drupal('pages/see/1'));
        expect(count($browser->cookies) === 1, 'no cookie is set');
        $planted = $browser->copy();
        drupal_log_in($browser);
        expect(drupal_knows($browser), 'the log-in fails');
        $page = $browser->get(drupal('pages/seen'));
        expect($page->has('seen: 1 pages'), 'the data are gone', $page);
        expect($planted->cookies !== $browser->cookies, 'the id stays at a log-in');
        expect(!drupal_knows($planted), 'the id of before leads to the user');
    },
    'a wrong password logs nobody in' => function () {
        $browser = browser();
        $page = drupal_log_in($browser, 'wrong');
        expect($page->has('unrecognized username or password'), 'no message', $page);
        expect(!drupal_knows($browser), 'the visitor is logged in');
    },
    'page after page keeps the session' => function () {
        $browser = drupal_logged_in();
        $cookies = $browser->cookies;
        foreach (['node', 'admin/content', 'user/1', 'node/add', 'admin/people'] as $path) {
            $page = $browser->get(drupal($path));
            expect($page->status === 200 && $page->has('user/logout'), 'logged out', $page);
        }
        expect($browser->cookies === $cookies, 'the cookie changes');
    },
    'a form takes its token and no other, and its message is shown once' => function () {
        $browser = drupal_logged_in();
        $form = $browser->get(drupal('node/add/page'));
        $title = './/input[@name="title"]';
        $with = ['title' => 'Offers', 'op' => 'Save'];
        $page = $browser->submit($form, $title, ['form_token' => 'forged'] + $with);
        expect($page->has('The form has become outdated'), 'a forged token is taken', $page);
        $page = drupal_logged_in()->submit($form, $title, $with);
        expect($page->has('The form has become outdated'), 'a foreign token is taken', $page);
        $message = 'Offers</em> has been created';
        $page = $browser->submit($browser->get(drupal('node/add/page')), $title, $with);
        expect($page->has($message), 'the own token is refused', $page);
        $page = $browser->get(drupal('node'));
        expect(!$page->has($message), 'the message is shown twice', $page);
    },
    'a log-out ends the session of one browser of two' => function () {
        [$one, $other] = [drupal_logged_in(), drupal_logged_in()];
        $stolen = $one->copy();
        $one->get(drupal('user/logout'));
        expect(!drupal_knows($one), 'still logged in');
        expect($one->cookies === [], 'the cookie stays');
        expect(!drupal_knows($stolen), 'the old cookie leads to the user');
        expect(drupal_knows($other), 'the other browser is logged out');
    },
    'a new password logs the other browser out' => function () {
        [$one, $other] = [drupal_logged_in(), drupal_logged_in()];
        $stolen = $one->copy();
        drupal_change_password($one, 'secret', 'changed');
        try {
            expect(drupal_knows($one), 'the browser that changed it is logged out');
            expect(!drupal_knows($other), 'the other browser is logged in');
            expect(!drupal_knows($stolen), 'the id of before leads to the user');
        } finally {
            drupal_change_password($one, 'changed', 'secret');
        }
    },
    PARALLEL_PAGES . ' parallel pages keep the session' => function () {
        $browser = drupal_logged_in();
        $cookies = $browser->cookies;
        drupal_parallel($browser, fn () => 'node');
        expect($browser->cookies === $cookies, 'the cookie changes');
    },
    PARALLEL_PAGES . ' parallel changes are all kept' => function () {
        $browser = drupal_logged_in();
        // The first value of the session, which goes while others change.
        $browser->get(drupal('pages/note/0'));
        drupal_parallel($browser, fn ($n) => $n % 2 ? "pages/see/$n" : "pages/note/$n");
        $seen = 'seen: ' . (PARALLEL_PAGES + 1) . ' pages';
        $page = $browser->get(drupal('pages/seen'));
        expect($page->has($seen), 'changes are lost', $page);
        drupal_parallel($browser,
            fn ($n) => $n % 2 ? "pages/see/new$n" : 'pages/forget/' . ($n - 2));
        $page = $browser->get(drupal('pages/seen'));
        expect($page->has($seen), 'changes or removals are lost', $page);
        expect($page->has('user/logout'), 'logged out', $page);
    },
    'mixed mode: a log-in over HTTPS holds over HTTP, and ends over both' => function () {
        $browser = mixed_browser();
        $page = drupal_log_in($browser, scheme: 'https');
        expect($page->has('user/logout'), 'the log-in fails', $page);
        expect(count($browser->cookies) === 2, 'there are not two cookies');
        expect(drupal_knows($browser, 'http'), 'not logged in over HTTP');
        $browser->get(drupal('pages/see/1', 'http'));
        $page = $browser->get(drupal('pages/seen', 'https'));
        expect($page->has('seen: 1 pages'), 'not one session', $page);
        $stolen = $browser->copy();
        $browser->get(drupal('user/logout', 'https'));
        foreach (['http', 'https'] as $scheme) {
            expect(!drupal_knows($browser, $scheme), "still logged in over $scheme");
            expect(!drupal_knows($stolen, $scheme), "the old cookie is valid over $scheme");
        }
    },
    'mixed mode: a log-in over HTTP is none over HTTPS' => function () {
        $browser = mixed_browser();
        drupal_log_in($browser);
        expect(drupal_knows($browser, 'http'), 'the log-in fails');
        expect(!drupal_knows($browser, 'https'), 'logged in over HTTPS');
    },
];
