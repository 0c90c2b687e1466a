package templates

import (
	"time"

	"github.com/dave/jennifer/jen"

	"github.com/lockgen/lockgen/templates/model"
)

// spec writes the options of a lock.
func spec(l *model.Lock) *jen.Statement {
	fields := []jen.Code{field("Name", jen.Lit(l.SpecName))}
	switch l.Kind {
	case model.Write:
		fields = append(fields, field("Kind", lockrt("KindWrite")))
	case model.Read:
		fields = append(fields, field("Kind", lockrt("KindRead")))
	}
	fields = append(fields, field("Wait", wait(l.Wait)))
	if l.Watchdog > 0 {
		fields = append(fields, field("Watchdog", duration(l.Watchdog)))
	}
	if l.Lease > 0 {
		fields = append(fields, field("Lease", duration(l.Lease)))
	}
	if l.Min > 0 {
		fields = append(fields, field("Min", duration(l.Min)))
	}
	for _, flag := range []struct {
		name string
		set  bool
	}{
		{"Keep", l.Keep},
		{"Report", l.Report},
		{"Empty", allowsNone(l)},
		{"Fence", l.Fence},
	} {
		if flag.set {
			fields = append(fields, field(flag.name, jen.True()))
		}
	}
	return lockrt("Spec").Values(fields...)
}

// allowsNone says whether there may be no keys, since the lists that give them may be empty.
func allowsNone(l *model.Lock) bool {
	for _, k := range l.Keys {
		if list := listOf(k); list == nil || !list.Empty {
			return false
		}
	}
	return true
}

func field(name string, value *jen.Statement) jen.Code { return jen.Id(name).Op(":").Add(value) }

func wait(d time.Duration) *jen.Statement {
	if d == model.UntilDone {
		return lockrt("UntilDone")
	}
	return duration(d)
}

// duration writes a duration in the largest unit that it is a multiple of.
func duration(d time.Duration) *jen.Statement {
	if d == 0 {
		return jen.Lit(0)
	}
	units := []struct {
		unit time.Duration
		name string
	}{
		{time.Hour, "Hour"}, {time.Minute, "Minute"}, {time.Second, "Second"},
		{time.Millisecond, "Millisecond"}, {time.Microsecond, "Microsecond"}, {time.Nanosecond, "Nanosecond"},
	}
	i := 0
	for d%units[i].unit != 0 {
		i++
	}
	unit := jen.Qual("time", units[i].name)
	if n := d / units[i].unit; n > 1 {
		return jen.Lit(int(n)).Op("*").Add(unit)
	}
	return unit
}
