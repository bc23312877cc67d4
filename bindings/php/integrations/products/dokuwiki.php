<?php
// The checks of DokuWiki. The user is anna.

const WIKI_LOG_IN = './/input[@name="u"]';
const WIKI_TEXT = './/textarea[@name="wikitext"]';

function wiki(string $what = ''): string
{
    return "http:/dokuwiki/doku.php?id=start$what";
}

function wiki_log_in(Browser $browser, string $password = 'secret'): Page
{
    return $browser->submit($browser->get(wiki('&do=login')), WIKI_LOG_IN,
        ['u' => 'anna', 'p' => $password]);
}

function wiki_logged_in(): Browser
{
    $browser = browser();
    $page = wiki_log_in($browser);
    expect($page->has('Logged in as'), 'the log-in fails', $page);
    return $browser;
}

function wiki_knows(Browser $browser): bool
{
    return $browser->get(wiki())->has('Logged in as');
}

return [
    'a wrong password logs nobody in' => function () {
        $browser = browser();
        $page = wiki_log_in($browser, 'wrong');
        expect($page->has('username or password was wrong'), 'no message', $page);
        expect(!wiki_knows($browser), 'the visitor is logged in');
    },
    'page after page keeps the session' => function () {
        $browser = wiki_logged_in();
        $cookies = $browser->cookies;
        foreach (['', '&do=recent', '&do=admin', '&do=profile', '&do=media'] as $what) {
            $page = $browser->get(wiki($what));
            expect($page->has('Logged in as'), 'logged out', $page);
        }
        expect($browser->cookies === $cookies, 'the cookies change');
    },
    'a form takes its token and no other' => function () {
        $browser = wiki_logged_in();
        $text = ['wikitext' => bin2hex(random_bytes(8)), 'do[save]' => '1'];
        $form = $browser->get(wiki('&do=edit'));
        $page = $browser->submit($form, WIKI_TEXT, ['sectok' => 'forged'] + $text);
        expect($page->has('Security Token did not match'), 'a forged token is taken', $page);
        $other = wiki_logged_in();
        $page = $other->submit($form, WIKI_TEXT, $text);
        expect($page->has('Security Token did not match'), 'a foreign token is taken', $page);
        $browser->submit($browser->get(wiki('&do=edit')), WIKI_TEXT, $text);
        $page = $browser->get(wiki());
        expect($page->has($text['wikitext']), 'the own token is refused', $page);
    },
    'a log-out ends the session of one browser of two' => function () {
        [$one, $other] = [wiki_logged_in(), wiki_logged_in()];
        $link = $one->get(wiki())->find('//a[contains(@href, "do=logout")]')
            ?->getAttribute('href');
        $one->get("http:$link");
        expect(!wiki_knows($one), 'still logged in');
        expect(wiki_knows($other), 'the other browser is logged out');
    },
];
