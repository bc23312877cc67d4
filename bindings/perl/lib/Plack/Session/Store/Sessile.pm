package Plack::Session::Store::Sessile;
use strict;
use warnings;
use parent 'Plack::Session::Store';
use Scalar::Util qw(refaddr weaken);
# Here: a worker of a server may have no access to its directory any more.
use Storable ();
use Sessile;

sub new {
    my ($class, %given) = @_;
    my $url         = delete $given{url} // die "Plack::Session::Store::Sessile needs a url\n";
    my $concurrency = delete $given{concurrency} // 'exclusive';
    my $owner       = delete $given{owner};
    my $serializer  = delete $given{serializer} // ($concurrency eq 'merge' ? 'JSON' : 'Storable');
    die "concurrency is exclusive or merge\n" if $concurrency !~ /\A(?:exclusive|merge)\z/;
    die "concurrency => 'merge' needs the serializer JSON: Storable's bytes cannot be merged\n"
        if $concurrency eq 'merge' and $serializer ne 'JSON';
    my $self = bless { held => {}, merge => $concurrency eq 'merge', owner => $owner }, $class;
    $self->{sessions} = Sessile->shared($url, %given, merge => $self->{merge});
    $self->{sessions}->check_owners if defined $owner;
    @$self{qw(encode decode)} = $serializer eq 'JSON' ? Sessile::json()
        : $serializer eq 'Storable' ? _storable()
        : die "serializer is Storable or JSON\n";
    return $self;
}

sub _storable {
    # With sorted keys a hash that has not changed is mostly the bytes that were read, and is not
    # written. A number that was used as text is other bytes.
    my $freeze = sub { local $Storable::canonical = 1; Storable::nfreeze($_[0]) };
    return ($freeze, Sessile::decoder(\&Storable::thaw));
}

# The hash that the middleware gets holds the session: it is stored with the hash, and is free when
# the hash is gone, also if the application has died.
sub fetch {
    my ($self, $id) = @_;
    my $session = {};
    my $payload = Sessile::Session::open($session, $self->{sessions}, $id, 1, 1) // return;
    %$session = %{ $self->_decoded($payload) } if length $payload;
    $self->_forget_ended;
    weaken($self->{held}{$id}{ refaddr $session } = $session);
    return $session;
}

sub _decoded {
    my ($self, $payload) = @_;
    return $self->{decode}->($payload)
        // die Sessile::Error->new('corrupt', 'a stored session is no hash of the serializer');
}

sub _forget_ended {
    my ($self) = @_;
    my $held = $self->{held};
    for my $id (keys %$held) {
        my $hashes = $held->{$id};
        delete @$hashes{ grep { !$hashes->{$_} } keys %$hashes };
        delete $held->{$id} if !%$hashes;
    }
    return;
}

# The hash that holds the session. The application may have put another one in its place.
sub _holder {
    my ($self, $id, $session) = @_;
    return $session
        if Sessile::Session::is_open($session) and Sessile::Session::id($session) eq $id;
    my @holders = grep { $_ and Sessile::Session::is_open($_) } values %{ $self->{held}{$id} // {} };
    return $holders[0] if @holders == 1;
    # The session is new, or has a new id. Otherwise nobody knows what has changed, and it is refused:
    # the id is taken.
    Sessile::Session::unopened($session, $self->{sessions}, $id);
    return $session;
}

# A session may be stored once more: it then has to be the one that was stored here, or is merged.
sub store {
    my ($self, $id, $session) = @_;
    my $holder  = $self->_holder($id, $session);
    my $payload = $self->{encode}->($session);
    my $read    = Sessile::Session::stored($holder) // '';
    # What another language has written is other text, and is no change.
    my $same = length $read && ($payload eq $read
        or $self->{merge} && $payload eq $self->{encode}->($self->_decoded($read)));
    Sessile::Session::name_owner($holder, $self->{owner}, $session)
        if !$same and defined $self->{owner};
    Sessile::Session::save($holder, $payload, $same ? 0 : 1);
    Sessile::Session::give_back($holder);
    return;
}

sub remove {
    my ($self, $id) = @_;
    $self->{sessions}->destroy($id);
    return;
}

1;

__END__

=head1 NAME

Plack::Session::Store::Sessile - sessions of Plack::Middleware::Session in a store of Sessile

=head1 SYNOPSIS

    enable 'Session', store => Plack::Session::Store::Sessile->new(url => 'sessile:/var/lib/sessile');

=head1 DESCRIPTION

A request holds its session from C<fetch> to C<store>, so that parallel requests of one visitor lose
nothing. The interface of a store does not know its requests, but hands the hash that it fetched to
the application and back: the lock goes with that hash. If the application dies, the lock is free
when the hash is.

=over

=item * With C<no_store>, which a request says when it only reads, the lock is held until the request
ends.

=item * A server that serves several requests in one process at a time, such as Twiggy, would wait for
itself: there C<concurrency> has to be C<merge>.

=item * After a C<change_id> parallel requests under the old id see no session, as with any store of
Plack. With C<merge> that loses what such requests have stored since this one began: use the plain
interface and its C<regenerate> where it matters.

=item * An application that answers later (a code reference) changes the hash in C<psgix.session>
and does not put another one in its place. Otherwise C<store> dies with the kind C<exists>, because
what was changed is not known.

=back

=head2 Arguments

C<url>; C<concurrency>: C<exclusive> (default) or C<merge>, in which requests run in parallel and each
applies its changes; C<serializer>: C<Storable> (default), or C<JSON>, which C<merge> needs; C<owner>: the key of the
session that has the user, such as C<user_id>. Then C<< Sessile->shared($url)->revoke($user) >> ends the
sessions of a user that were changed since. A store that keeps no owners (memcached) is refused. The settings of L<Sessile>, such as C<expires> and C<lock_wait>.

=cut
