<?php
// What only the module for Drupal 10 and 11 does, for client.php.

/** The owner of a session is the user who is logged in, without code. */
function all_sessions_of_a_user_end_but_the_open_one(): void
{
    $phone = $desk = $anna = [];
    get('enter', $phone);
    get('enter', $desk);
    get('login', $anna);
    same('1', get('end-others', $desk), 'the sessions that ended');
    same('anna', get('user', $desk), 'the user of the open session');
    same('nobody', get('user', $phone), 'the user of the other session');
    same('anna', get('user', $anna), 'another user');
}

return ['all_sessions_of_a_user_end_but_the_open_one'];
