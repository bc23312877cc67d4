<?php
// The checks of phpMyAdmin. The user of the database is shop.

const PMA_LOG_IN = './/input[@name="pma_username"]';

function pma(string $route): string
{
    return "http:/phpmyadmin/index.php?route=$route";
}

function pma_logged_in(): Browser
{
    $browser = browser();
    $page = $browser->submit($browser->get(pma('/')), PMA_LOG_IN,
        ['pma_username' => 'shop', 'pma_password' => 'secret']);
    expect(pma_token($page) !== '' && !$page->find('.' . PMA_LOG_IN), 'the log-in fails', $page);
    return $browser;
}

function pma_token(Page $page): string
{
    return preg_match('/token:"([^"]+)"/', $page->body, $token) ? $token[1] : '';
}

function pma_knows(Browser $browser): bool
{
    return !$browser->get(pma('/database/structure') . '&db=shop')->find('.' . PMA_LOG_IN);
}

/** Runs a statement as the page does. */
function pma_query(Browser $browser, string $token, string $query): ?array
{
    return json_decode($browser->post(pma('/sql'), ['ajax_request' => '1', 'db' => 'shop',
        'sql_query' => $query, 'token' => $token])->body, true);
}

return [
    'a wrong password logs nobody in' => function () {
        $browser = browser();
        $browser->submit($browser->get(pma('/')), PMA_LOG_IN,
            ['pma_username' => 'shop', 'pma_password' => 'wrong']);
        expect(!pma_knows($browser), 'the visitor is logged in');
    },
    'page after page keeps the session' => function () {
        $browser = pma_logged_in();
        $cookies = $browser->cookies;
        $tokens = [];
        foreach (['/', '/server/variables', '/database/structure&db=shop', '/'] as $route) {
            $page = $browser->get(pma($route));
            $tokens[] = pma_token($page);
            expect(!$page->find('.' . PMA_LOG_IN), 'logged out', $page);
        }
        expect(count(array_unique($tokens)) === 1, 'the token changes');
        expect($browser->cookies['phpMyAdmin'] === $cookies['phpMyAdmin'], 'the id changes');
    },
    'a statement takes its token and no other' => function () {
        $browser = pma_logged_in();
        $token = pma_token($browser->get(pma('/')));
        $query = "INSERT INTO book VALUES ('" . bin2hex(random_bytes(8)) . "')";
        expect(!(pma_query($browser, 'forged', $query)['success'] ?? false),
            'a forged token is taken');
        $foreign = pma_token(pma_logged_in()->get(pma('/')));
        expect(!(pma_query($browser, $foreign, $query)['success'] ?? false),
            'a foreign token is taken');
        $answer = pma_query($browser, $token, $query);
        expect($answer['success'] ?? false, 'the own token is refused: ' . json_encode($answer));
    },
    'a log-out ends the session' => function () {
        $browser = pma_logged_in();
        $stolen = $browser->copy();
        $token = pma_token($browser->get(pma('/')));
        $browser->post(pma('/logout'), ['token' => $token]);
        expect(!pma_knows($browser), 'still logged in');
        $answer = pma_query($stolen, $token, 'SELECT 1');
        expect(!($answer['success'] ?? false), 'the old cookie and token are valid');
    },
];
