# Times one keeper of sessions inside Perl, for `sessile bench perl`. It says what it has read; whether that is right, the
# benchmark knows and this program does not.
#
#   perl runner.pl class=PACKAGE file=FILE [file=FILE ...] [NAME=VALUE ...]
#
# The files define the package; whatever else is named goes to its constructor. A keeper has these methods:
#
#   new(\%settings)   opens what lives as long as the process: a connection, a cache
#   begin($id)        the hash of a session, by reference; of a new one without an id
#   end($session)     saves and closes it; returns its id. One session is open at a time
#   clear()           removes all sessions
#   dissect(\&open)   optional: where the time of some opened sessions goes
#   forked()          optional: the keeper for a process that was forked off, where it cannot be the same
#
# Each line on standard input is a request:
#
#   make N     begins N new sessions, reads and writes ten values in each in turn, ends it. The values follow, one a line
#   reopen N   the same with the first N sessions of the last make
#   read N     begins them, reads their ten values and ends them
#   clear      removes all sessions
#   dissect N  opens N of them, looking where the time goes
#   race C M   two processes at once add one to a value of one session, C times each; then each makes M sessions
#
# An answer begins with `done A B` or with `failed WHY`, in one line. After make, reopen and read A is the CPU time of the
# process in nanoseconds; N lines with nanoseconds from begin to end follow, and a line for each value that was read: `=` and
# the value, or `-`. After dissect come lines of names and numbers, as many as A says. After race A is what the value has become,
# and B how many of the new sessions can be read.
use strict;
use warnings;
use POSIX ();
use Time::HiRes qw(clock_gettime CLOCK_MONOTONIC CLOCK_PROCESS_CPUTIME_ID);

use constant VALUES => 10;
# A damaged file can keep its reader busy for ever.
use constant RACE_SECONDS => 120;
# So long a request has its session in a race.
use constant REQUEST_SECONDS => 0.001;

# A keeper that saves when its object goes can only warn that it could not. No session may be lost without a word.
my @warnings;
$SIG{__WARN__} = sub { push @warnings, $_[0] };

my (%settings, @files);
for my $argument (@ARGV) {
    my ($name, $value) = split /=/, $argument, 2;
    if ($name eq 'file') { push @files, $value }
    else                 { $settings{$name} = $value }
}
binmode STDIN;
binmode STDOUT;

my ($keeper, @ids);
answer(sub {
    require $_ for @files;
    $keeper = $settings{class}->new(\%settings);
    return 'done 0 0';
});
while (defined(my $line = <STDIN>)) {
    my ($verb, $count, $more) = split ' ', $line;
    my @values;
    if ($verb eq 'make' or $verb eq 'reopen') {
        @values = map { scalar <STDIN> } 1 .. $count * VALUES;
        chomp @values;
    }
    answer(sub {
        if ($verb eq 'make')    { return rounds([(undef) x $count], \@values) }
        if ($verb eq 'reopen')  { return rounds([@ids[0 .. $count - 1]], \@values) }
        if ($verb eq 'read')    { return rounds([@ids[0 .. $count - 1]]) }
        if ($verb eq 'clear')   { $keeper->clear; @ids = (); return 'done 0 0' }
        if ($verb eq 'dissect') { return dissect($count) }
        if ($verb eq 'race')    { return race($count, $more) }
        die "unknown request $verb\n";
    });
}

# Prints what a request gave, or why it failed.
sub answer {
    my ($request) = @_;
    my @lines = eval { $request->() };
    my $why = $@ || $warnings[0];
    @warnings = ();
    if ($why) {
        $why =~ s/\s+/ /g;
        @lines = ("failed $why");
    }
    print join("\n", @lines), "\n";
    STDOUT->flush;
}

# The measured part: nothing in it but the keeper, the clock, and lists that keep what was read.
sub rounds {
    my ($which, $values) = @_;
    my (@ns, @read, @kept);
    my $next = 0;
    my $cpu  = clock_gettime(CLOCK_PROCESS_CPUTIME_ID);
    my $then = clock_gettime(CLOCK_MONOTONIC);
    for my $id (@$which) {
        my $session = $keeper->begin($id);
        for my $name (1 .. VALUES) {
            push @read, $session->{$name};
            $session->{$name} = $values->[$next++] if $values;
        }
        push @kept, $keeper->end($session);
        my $now = clock_gettime(CLOCK_MONOTONIC);
        push @ns, $now - $then;
        $then = $now;
    }
    $cpu = clock_gettime(CLOCK_PROCESS_CPUTIME_ID) - $cpu;
    @ids = @kept if !defined $which->[0];
    return (
        sprintf('done %.0f 0', $cpu * 1e9),
        (map { sprintf '%.0f', $_ * 1e9 } @ns),
        (map { defined $_ ? "=$_" : '-' } @read),
    );
}

sub dissect {
    my ($count) = @_;
    return 'done 0 0' if !$keeper->can('dissect');
    my $open = sub {
        for my $id (@ids[0 .. $count - 1]) {
            my $session = $keeper->begin($id);
            $session->{1} = $session->{1};
            $keeper->end($session);
        }
    };
    my %found = $keeper->dissect($open);
    return ('done ' . keys(%found) . ' 0', map { sprintf "%s %.0f", $_, $found{$_} } sort keys %found);
}

sub race {
    my ($changes, $sessions) = @_;
    $keeper->clear;
    my $session = $keeper->begin;
    $session->{1} = 0;
    my $shared = $keeper->end($session);
    pipe my $said, my $say or die "no pipe: $!\n";
    my $child = fork // die "no second process: $!\n";
    alarm RACE_SECONDS;
    if (!$child) {
        my @made = eval { compete($keeper->can('forked') ? $keeper->forked : $keeper, $shared, $changes, $sessions) };
        my $why = $@ || $warnings[0];
        print {$say} $why ? "failed $why" : map { "$_\n" } @made;
        close $say;
        POSIX::_exit(0);    # what was inherited belongs to the parent: nothing of it is closed here
    }
    close $say;
    my @made  = eval { compete($keeper, $shared, $changes, $sessions) };
    my $why   = $@;
    my @other = <$said>;
    waitpid $child, 0;
    die $why if $why;
    chomp @other;
    die "$other[0] (the second process)\n" if @other and $other[0] =~ s/^failed //;
    die "the second process ended early\n" if @other != $sessions;
    my $value = value_of($shared);
    my $there = grep { defined value_of($_) } @made, @other;
    alarm 0;
    return "done $value $there";
}

# Changes one session together with another process, and makes some of its own; returns their ids.
sub compete {
    my ($own, $shared, $changes, $sessions) = @_;
    for (1 .. $changes) {
        my $session = $own->begin($shared);
        my $value   = $session->{1};
        select undef, undef, undef, REQUEST_SECONDS;
        $session->{1} = $value + 1;
        $own->end($session);
    }
    my @made;
    for my $number (1 .. $sessions) {
        my $session = $own->begin;
        $session->{1} = $number;
        push @made, $own->end($session);
    }
    return @made;
}

# What one session holds, or nothing where it is not there any more.
sub value_of {
    my ($id) = @_;
    my $session = eval { $keeper->begin($id) } // return undef;
    my $value = $session->{1};
    $keeper->end($session);
    return $value;
}
