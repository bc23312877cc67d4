package Sessile;
use strict;
use warnings;
use Scalar::Util qw(reftype);
use Sessile::Error;

our $VERSION = '0.001';

require XSLoader;
XSLoader::load('Sessile', $VERSION);

# The order is that of the enumeration in Sessile.xs.
our @SETTINGS = qw(expires first_lifetime lifetime lock_wait grace read_on_lock_timeout lazy_start
    touch_unlocked merge fail_on_conflict format);
my %DEFAULTS = (expires => 1440, first_lifetime => 0, lifetime => 0, lock_wait => 30, grace => 30,
    format => 'json');

sub new {
    my ($class, $url, %settings) = @_;
    my %known = map { $_ => 1 } @SETTINGS;
    for my $name (keys %settings) {
        die Sessile::Error->new('invalid-argument', "$name is no setting; there are: @SETTINGS")
            if !$known{$name};
    }
    my %all = (%DEFAULTS, %settings);
    # 0 means `for ever` elsewhere, and would end each session at once.
    die Sessile::Error->new('invalid-argument', 'expires is a number of seconds above 0')
        if !($all{expires} > 0);
    my $self = bless {}, $class;
    _open($self, $url, [@all{@SETTINGS}]);
    return $self;
}

# Stores that are open in this interpreter: opening costs more than a request. A forked child uses
# its parent's.
my %open;

sub shared {
    my ($class, $url, %settings) = @_;
    my $key = join "\0", $url, map { $_, $settings{$_} // '' } sort keys %settings;
    return $open{$key} //= $class->new($url, %settings);
}

my @json;

# Makes JSON of a hash, and a hash of JSON. The keys are sorted, so a hash that has not changed is the
# text that was read, and is not written. A number that was used as text may become a string: then it
# is written once more.
sub json {
    if (!@json) {
        my ($class) = grep { eval "require $_" } qw(Cpanel::JSON::XS JSON::XS JSON::PP);
        my $json = $class->new->utf8->canonical;
        @json = (sub { $json->encode($_[0]) }, decoder(sub { $json->decode($_[0]) }));
    }
    return @json;
}

# Makes a hash of a payload, or undef of one that is none. Why is not said: the reasons of
# serialisers quote the payload, and go into logs.
sub decoder {
    my ($decode) = @_;
    return sub {
        local $@;
        # Setting a handler aside takes a tenth of a request, and few applications have one.
        local $SIG{__DIE__} if $SIG{__DIE__};
        my $data = eval { $decode->($_[0]) };
        return (reftype($data) // '') eq 'HASH' ? $data : undef;
    };
}

# An owner as bytes, the same whatever Perl keeps its text in. Of a copy: a number of the application
# stays one, and an element of a tied hash is fetched.
sub owner_bytes {
    my ($owner) = @_;
    utf8::encode($owner) if defined $owner;
    return $owner;
}

sub revoke {
    my ($self, $owner, $but) = @_;
    return $self->_revoke(owner_bytes($owner // ''), $but // '');
}

# Dies if the store keeps no owners: otherwise only a log-in would show it.
sub check_owners {
    my ($self) = @_;
    my $session = {};
    Sessile::Session::unopened($session, $self, new_id());
    Sessile::Session::set_owner($session, undef);
    return;
}

sub begin {
    my ($self, $id) = @_;
    my $session = bless {}, 'Sessile::Session';
    $session->{payload} = Sessile::Session::open($session, $self, $id);
    return $session;
}

sub read_only {
    my ($self, $id) = @_;
    my $session = bless {}, 'Sessile::Session';
    $session->{payload} = Sessile::Session::open($session, $self, $id, 0);
    return $session;
}

package Sessile::Session;

sub payload { return $_[0]{payload} }

sub commit {
    my ($self, $payload) = @_;
    my $saved = $self->save($payload, 1);
    $self->close;
    return $saved;
}

sub touch {
    my ($self) = @_;
    return $self->save($self->{payload}, 0);
}

# The next save sets the owner of the session; undef takes it away.
sub set_owner {
    my ($self, $owner) = @_;
    _set_owner($self, Sessile::owner_bytes($owner));
    return;
}

# Names the owner that a hash has under a key. One that is set already costs nothing.
sub name_owner {
    my ($holder, $key, $data) = @_;
    my $owner = $data->{$key} // '';
    die Sessile::Error->new('invalid-argument', "the owner under the key $key is a reference")
        if ref $owner;
    set_owner($holder, length $owner ? $owner : undef);
    return;
}

1;

__END__

=head1 NAME

Sessile - sessions of web applications, in shared memory, on a disk or on a server

=head1 SYNOPSIS

    use Sessile;
    my $sessions = Sessile->new('sessile:/var/lib/sessile', expires => 1440);

    my $id      = Sessile::new_id();
    my $session = $sessions->begin($id);            # waits for other requests of this session
    $session->commit($session->payload . '1 book;'); # stores, and gives the lock back

    print $sessions->peek($id) // 'no such session';
    $sessions->destroy($id);

=head1 DESCRIPTION

The plain interface. L<Apache::Session::Sessile> and L<Plack::Session::Store::Sessile> are what
applications use.

A payload is a string of bytes. A failure is a L<Sessile::Error>, which has a C<kind>. What an
operator should know and no caller is told, for example the use of a spent id, is a warning.

A forked child uses the stores of its parent, but not its sessions, which stay the parent's. A new
thread uses the stores of the others, and has none of their sessions open.

=head2 Sessile->new($url, %settings)

Opens a store. Times are seconds and may have a fraction. C<< Sessile->shared >> takes the same and
returns the store that is open already.

    expires               a session lives so long after each request (1440)
    first_lifetime        until a second request uses it, it lives so long (0: expires)
    lifetime              and ends so long after its creation at the latest (0: never)
    lock_wait             longest wait for a session that another request holds (30)
    grace                 so long an id that was replaced shows the session as it was before (30)
    read_on_lock_timeout  then the session is read without its lock, and cannot be changed
    lazy_start            a new session without data is not stored
    touch_unlocked        reading without the lock moves the expiry
    merge                 requests of a session run in parallel, and each applies its changes at its
                          end
    fail_on_conflict      with merge: if two requests have changed one value, the second save fails
    format                of payloads, for merge: json, php or php_serialize

=head2 Of the store

C<begin($id)> locks and reads a session, C<read_only($id)> reads it without its lock; both return a
session. C<peek($id)> is the payload, or undef. C<destroy($id)> waits for nobody, and what a request
saves that had the session open is refused. C<revoke($owner, $but)> ends all sessions of an owner, but
for the one with the id C<$but>, and returns their number. C<touch($id)> lets a session live longer.
C<collect($all)> removes expired sessions, where they do not go by themselves, and returns their
number: few, or all. C<counters> is a hash of what could not be saved or locked so far. C<label> is
the URL without secrets. C<Sessile::new_id($digits)> is a random hexadecimal id.

=head2 Of a session

C<payload> is what was read, '' for a new session. C<commit($payload)> stores and gives the lock
back; C<save($payload)> may be followed by another one, which is refused as C<stale> if another
request has changed the session in between. C<hold> takes the lock again after a C<save>, or dies as
C<stale> at once. Both saves return C<stored>, C<touched>,
C<nothing>, C<logged-out> (another request has destroyed the session; nothing is stored),
C<replaced> (it has another id by now) or C<ended> (the end of its lifetime). C<touch> saves what was
read. C<set_owner($owner)> makes the next save say whose session it is, for example by the number of its
user; undef takes that away. C<regenerate($new_id, $keeps)> gives it another id and keeps the lock; unless C<$keeps> is
false, the old id shows the session as it was before, for the grace. C<destroy> is a log-out.
C<release> gives the lock back; so does the end of the object.

=cut
