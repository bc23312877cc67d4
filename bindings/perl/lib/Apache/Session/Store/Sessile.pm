package Apache::Session::Store::Sessile;
use strict;
use warnings;
use Apache::Session::Sessile;

sub new { return bless {}, $_[0] }

# Locks and reads the session, once for the lock and the store of Apache::Session::Flex.
sub hold {
    my ($session) = @_;
    return if Sessile::Session::is_open($session);
    die "Owner is an argument of Apache::Session::Sessile only\n"
        if defined +($session->{args} // {})->{Owner};
    my $sessions = Apache::Session::Sessile::sessions($session->{args} // {});
    my $id = $session->{data}{_session_id};
    # Without a record it is opened all the same: the lock is wanted.
    $session->{sessile_found} = Sessile::Session::open($session, $sessions, $id, 1, 1);
    Sessile::Session::open($session, $sessions, $id) if !defined $session->{sessile_found};
    return;
}

sub insert {
    my ($self, $session) = @_;
    hold($session);
    die 'Object already exists in the data store' if defined $session->{sessile_found};
    Sessile::Session::save($session, $session->{serialized});
    Sessile::Session::hold($session);
    $session->{sessile_found} = $session->{serialized};
    return;
}

sub update {
    my ($self, $session) = @_;
    hold($session);
    Sessile::Session::save($session, $session->{serialized});
    $session->{sessile_found} = $session->{serialized};
    # The next update opens it again, and dies if another request has changed the session.
    $session->{sessile_saved} = 1;
    return;
}

sub materialize {
    my ($self, $session) = @_;
    hold($session);
    $session->{serialized} = $session->{sessile_found}
        // die 'Object does not exist in the data store';
    # What Apache::Session::Sessile has stored lacks the id.
    my $unserialize = $session->{sessile_unserialize} //= $session->{unserialize} // return;
    my $id = $session->{data}{_session_id};
    $session->{unserialize} = sub {
        my ($read) = @_;
        $unserialize->($read);
        $read->{data}{_session_id} //= $id;
        return;
    };
    return;
}

sub remove {
    my ($self, $session) = @_;
    hold($session);
    die 'Object does not exist in the data store' if !defined $session->{sessile_found};
    Sessile::Session::destroy($session);
    undef $session->{sessile_found};
    return;
}

sub close { return }

1;

__END__

=head1 NAME

Apache::Session::Store::Sessile - a store for Apache::Session::Flex

=head1 SYNOPSIS

    tie my %session, 'Apache::Session::Flex', $id, {
        Store => 'Sessile', Lock => 'Sessile', Generate => 'MD5', Serialize => 'Storable',
        Url   => 'sessile:/var/lib/sessile',
    };

=head1 DESCRIPTION

For applications with a serialiser or ids of their own; others take L<Apache::Session::Sessile>,
which is faster and has the same arguments and C<Owner>. The session is locked from its first use, with C<Lock>
set to another class, too. C<save> gives the lock back; if another request has changed the session
when the next C<save> or C<untie> stores, that dies, and nothing is lost.

=cut
