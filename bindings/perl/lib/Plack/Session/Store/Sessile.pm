package Plack::Session::Store::Sessile;
use strict;
use warnings;
use parent 'Plack::Session::Store';
use Scalar::Util qw(weaken);
use Sessile;

sub new {
    my ($class, %given) = @_;
    my $url         = delete $given{url} // die "Plack::Session::Store::Sessile needs a url\n";
    my $concurrency = delete $given{concurrency} // 'exclusive';
    my $serializer  = delete $given{serializer} // ($concurrency eq 'merge' ? 'JSON' : 'Storable');
    die "concurrency is exclusive or merge\n" if $concurrency !~ /\A(?:exclusive|merge)\z/;
    die "concurrency => 'merge' needs the serializer JSON: Storable's bytes cannot be merged\n"
        if $concurrency eq 'merge' and $serializer ne 'JSON';
    my $self = bless { held => {} }, $class;
    $self->{sessions} = Sessile->shared($url, %given, merge => $concurrency eq 'merge');
    @$self{qw(encode decode)} = $serializer eq 'JSON' ? Sessile::json()
        : $serializer eq 'Storable' ? _storable()
        : die "serializer is Storable or JSON\n";
    return $self;
}

sub _storable {
    require Storable;
    # The same hash is always the same bytes: what has not changed is then not written.
    my $freeze = sub { local $Storable::canonical = 1; Storable::nfreeze($_[0]) };
    return ($freeze, \&Storable::thaw);
}

# The hash that the middleware gets holds the session: it is stored with the hash, and is free when
# the hash is gone, also if the application has died.
sub fetch {
    my ($self, $id) = @_;
    my $session = {};
    my $payload = Sessile::Session::open($session, $self->{sessions}, $id, 1, 1) // return;
    %$session = %{ $self->{decode}->($payload) };
    my $held = $self->{held};
    delete @$held{ grep { !$held->{$_} } keys %$held };
    weaken($held->{$id} = $session);
    return $session;
}

sub store {
    my ($self, $id, $session) = @_;
    my $holder = $session;
    if (!Sessile::Session::is_open($session) or Sessile::Session::id($session) ne $id) {
        # The application may have put another hash in place of the one that was fetched. Otherwise
        # the session is new, or has a new id.
        $holder = $self->{held}{$id};
        $holder = $session if !$holder or !Sessile::Session::is_open($holder);
        Sessile::Session::open($holder, $self->{sessions}, $id) if $holder == $session;
    }
    Sessile::Session::save($holder, $self->{encode}->($session));
    Sessile::Session::close($holder);
    delete $self->{held}{$id};
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
Plack.

=back

=head2 Arguments

C<url>; C<concurrency>: C<exclusive> (default) or C<merge>, in which requests run in parallel and each
applies its changes; C<serializer>: C<Storable> (default), or C<JSON>, which C<merge> needs. The
settings of L<Sessile>, such as C<expires> and C<lock_wait>.

=cut
