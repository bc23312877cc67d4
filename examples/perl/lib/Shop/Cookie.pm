# The cookie of the session, which a visitor without a session does not get.
package Shop::Cookie;
use strict;
use warnings;
use parent 'Plack::Session::State::Cookie';

sub finalize {
    my ($self, $id, $response, $options) = @_;
    return if $options->{no_store};
    return $self->SUPER::finalize($id, $response, $options);
}

1;
