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
#
# Each line on standard input is a request:
#
#   make N     begins N new sessions, reads and writes ten values in each in turn, ends it. The values follow, one a line
#   reopen N   the same with the first N sessions of the last make
#   read N     begins them, reads their ten values and ends them
#   clear      removes all sessions
#   dissect N  opens N of them, looking where the time goes
#
# An answer begins with `done A B` or with `failed WHY`, in one line. After make, reopen and read A is the CPU time of the
# process in nanoseconds; N lines with nanoseconds from begin to end follow, and a line for each value that was read: `=` and
# the value, or `-`. After dissect come lines of names and numbers, as many as A says.
use strict;
use warnings;
use Time::HiRes qw(clock_gettime CLOCK_MONOTONIC CLOCK_PROCESS_CPUTIME_ID);

use constant VALUES => 10;

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
    my ($verb, $count) = split ' ', $line;
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
