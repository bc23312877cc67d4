<?php
// What only Laravel's driver does, for client.php.

/** The owner of a session is the user who is logged in, without code. */
function all_sessions_of_a_user_end_but_the_open_one(): void
{
    $phone = $desk = $anna = [];
    get('enter', $phone);
    get('enter', $desk);
    get('login', $anna);
    same('17', get('who', $phone), 'the user');
    same('1', get('end-others', $desk), 'the sessions that ended');
    same('17', get('who', $desk), 'the user of the open session');
    same('', get('who', $phone), 'the user of the other session');
    same('anna', get('user', $anna), 'another visitor');
}

return ['all_sessions_of_a_user_end_but_the_open_one'];
