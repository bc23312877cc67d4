package Apache::Session::Lock::Sessile;
use strict;
use warnings;
use Apache::Session::Store::Sessile;

sub new { return bless {}, $_[0] }

# A session has one lock, and gives it back when it is let go.
sub acquire_read_lock  { Apache::Session::Store::Sessile::hold($_[1]); return }
sub acquire_write_lock { Apache::Session::Store::Sessile::hold($_[1]); return }
sub release_read_lock  { return }
sub release_write_lock { return }

sub release_all_locks {
    my ($self, $session) = @_;
    # A session that was only read lives longer, too. With another store there is none here.
    Sessile::Session::save($session, '', 0)
        if Sessile::Session::is_open($session) and defined $session->{sessile_found}
        and !$session->{sessile_saved};
    Sessile::Session::close($session);
    return;
}

1;

__END__

=head1 NAME

Apache::Session::Lock::Sessile - a lock for Apache::Session::Flex

=head1 DESCRIPTION

With L<Apache::Session::Store::Sessile> the lock of the session itself. With another store it is a
lock in the store of C<Url> under the id, which is free as soon as its process ends.

=cut
