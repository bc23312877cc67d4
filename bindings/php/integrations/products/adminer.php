<?php
// The checks of Adminer. The user of the database is shop.

const ADMINER_LOG_IN = './/input[@name="auth[username]"]';
const ADMINER_TITLE = './/*[@name="fields[title]"]';

function adminer(string $what = ''): string
{
    return 'http:/adminer/?' . http_build_query(['server' => 'localhost:' . DATABASE,
        'username' => 'shop', 'db' => 'shop']) . $what;
}

function adminer_log_in(Browser $browser, string $password): Page
{
    return $browser->submit($browser->get('http:/adminer/'), ADMINER_LOG_IN,
        ['auth[driver]' => 'server', 'auth[server]' => 'localhost:' . DATABASE,
            'auth[username]' => 'shop', 'auth[password]' => $password, 'auth[db]' => 'shop']);
}

function adminer_logged_in(): Browser
{
    $browser = browser();
    $page = adminer_log_in($browser, 'secret');
    expect($page->find('//input[@name="logout"]') !== null, 'the log-in fails', $page);
    return $browser;
}

function adminer_knows(Browser $browser): bool
{
    return $browser->get(adminer())->find('//input[@name="logout"]') !== null;
}

return [
    'a wrong password logs nobody in' => function () {
        $browser = browser();
        $page = adminer_log_in($browser, 'wrong');
        expect($page->has('Access denied'), 'no message', $page);
        expect(!adminer_knows($browser), 'the visitor is logged in');
    },
    'page after page keeps the session' => function () {
        $browser = adminer_logged_in();
        $cookies = $browser->cookies;
        foreach (['', '&table=book', '&select=book', '&privileges=', '&sql='] as $what) {
            $page = $browser->get(adminer($what));
            expect($page->find('//input[@name="logout"]') !== null, 'logged out', $page);
        }
        expect($browser->cookies === $cookies, 'the cookies change');
    },
    'a form takes its token and no other, and its message is shown once' => function () {
        $browser = adminer_logged_in();
        $form = $browser->get(adminer('&edit=book'));
        $title = ['fields[title]' => bin2hex(random_bytes(8))];
        $page = $browser->submit($form, ADMINER_TITLE, ['token' => '1:2'] + $title);
        expect($page->has('Invalid CSRF token'), 'a forged token is taken', $page);
        $page = adminer_logged_in()->submit($form, ADMINER_TITLE, $title);
        expect($page->has('Invalid CSRF token'), 'a foreign token is taken', $page);
        $message = 'has been inserted';
        $page = $browser->submit($form, ADMINER_TITLE, $title);
        expect($page->has($message), 'the own token is refused', $page);
        expect(!$browser->get(adminer())->has($message), 'the message is shown twice');
    },
    'a log-out ends the session' => function () {
        $browser = adminer_logged_in();
        $stolen = $browser->copy();
        $page = $browser->submit($browser->get(adminer()), './/input[@name="logout"]',
            ['logout' => 'Logout']);
        expect($page->has('Logout successful'), 'no message', $page);
        expect(!adminer_knows($browser), 'still logged in');
        expect(!adminer_knows($stolen), 'the old cookie leads to the user');
    },
];
