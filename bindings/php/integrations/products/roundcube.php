<?php
// The checks of Roundcube, with session_storage = php. The user is anna.

const MAIL_LOG_IN = './/input[@name="_user"]';
const MAIL_SETTINGS = './/input[@name="_action"][@value="save-prefs"]';

function roundcube(string $what): string
{
    return "http:/roundcube/?$what";
}

function mail_log_in(Browser $browser, string $password = 'secret'): Page
{
    return $browser->submit($browser->get(roundcube('')), MAIL_LOG_IN,
        ['_user' => 'anna', '_pass' => $password]);
}

function mail_logged_in(): Browser
{
    $browser = browser();
    $page = mail_log_in($browser);
    expect($page->has('anna@127.0.0.1'), 'the log-in fails', $page);
    return $browser;
}

function mail_knows(Browser $browser): bool
{
    return $browser->get(roundcube('_task=mail'))->has('anna@127.0.0.1');
}

return [
    'a log-in changes the id' => function () {
        $browser = browser();
        $browser->get(roundcube(''));
        $planted = $browser->copy();
        mail_log_in($browser);
        expect(mail_knows($browser), 'the log-in fails');
        expect($planted->cookies['roundcube_sessid'] !== $browser->cookies['roundcube_sessid'],
            'the id stays');
        expect(!mail_knows($planted), 'the id of before leads to the user');
    },
    'a wrong password logs nobody in' => function () {
        $browser = browser();
        mail_log_in($browser, 'wrong');
        expect(!mail_knows($browser), 'the visitor is logged in');
    },
    'page after page keeps the session' => function () {
        $browser = mail_logged_in();
        $id = $browser->cookies['roundcube_sessid'];
        foreach (['mail', 'addressbook', 'settings', 'settings&_action=folders', 'mail'] as $task) {
            $page = $browser->get(roundcube("_task=$task"));
            expect($page->status === 200 && !$page->find('.' . MAIL_LOG_IN), 'logged out', $page);
        }
        expect($browser->cookies['roundcube_sessid'] === $id, 'the id changes');
    },
    'a form takes its token and no other' => function () {
        $browser = mail_logged_in();
        $form = $browser->get(roundcube('_task=settings&_action=edit-prefs&_section=general'
            . '&_framed=1'));
        $page = $browser->submit($form, MAIL_SETTINGS, ['_token' => 'forged']);
        expect(!$page->has('Successfully saved'), 'a forged token is taken', $page);
        $page = mail_logged_in()->submit($form, MAIL_SETTINGS, []);
        expect(!$page->has('Successfully saved'), 'a foreign token is taken', $page);
        $page = $browser->submit($form, MAIL_SETTINGS, []);
        expect($page->has('Successfully saved'), 'the own token is refused', $page);
    },
    'a log-out ends the session of one browser of two' => function () {
        [$one, $other] = [mail_logged_in(), mail_logged_in()];
        $stolen = $one->copy();
        preg_match('/"request_token":"([^"]+)"/', $one->get(roundcube('_task=mail'))->body, $token);
        $page = $one->get(roundcube("_task=logout&_token=$token[1]"));
        expect($page->has('successfully terminated'), 'no message', $page);
        expect(!mail_knows($one), 'still logged in');
        expect(!mail_knows($stolen), 'the old cookie leads to the user');
        expect(mail_knows($other), 'the other browser is logged out');
    },
];
