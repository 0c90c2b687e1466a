package templates

import (
	"fmt"
	"strings"

	"github.com/lockgen/lockgen/templates/model"
)

// lockedDoc is the doc of a method with what it holds.
func lockedDoc(m *model.Method) []string {
	subject := "It"
	var lines []string
	if len(m.Doc) > 0 {
		lines = append(append(lines, m.Doc...), "")
	} else {
		subject = m.Name
	}
	holds := subject + " holds " + holding(m.Lock) + until(m.Lock) + "."
	if m.Lock.Skip || m.Lock.Fallback {
		busy := whenBusy(m.Lock)
		if m.Lock.Fallback {
			holds += fmt.Sprintf(" When %s, %s of the fallback is called instead.", busy, m.Name)
		} else if len(m.Results) > 0 {
			holds += fmt.Sprintf(" When %s, %s does nothing and returns nil.", busy, m.Name)
		} else {
			holds += fmt.Sprintf(" When %s, %s does nothing. Any other error goes to Options.Logger and Hooks.Unreported of the client, since %s returns none.", busy, m.Name, m.Name)
		}
	}
	return append(lines, holds)
}

// holding names what a method holds.
func holding(l *model.Lock) string {
	kind, each := l.Keys[0].Kind, "lock"
	text := keyList(l.Keys)
	switch {
	case l.Mixed():
		var locks, permits []string
		for _, k := range l.Keys {
			if k.Kind == model.Permit {
				permits = append(permits, oneOf(k))
			} else {
				locks = append(locks, oneOf(k))
			}
		}
		text = list(append(locks, permits...))
	case kind == model.Permit:
		text, each = fmt.Sprintf("one of %d permits of %s", l.Keys[0].Permits, text), "permit"
		if len(l.Keys) > 1 {
			text = fmt.Sprintf("one of %d permits each of %s", l.Keys[0].Permits, keyList(l.Keys))
		}
	}
	if shapeOf(l) == listKeys {
		text += ", one " + each + " for each element"
	}
	switch {
	case l.Mixed():
	case kind == model.Write:
		text += ", for writing"
	case kind == model.Read:
		text += ", for reading"
	case kind == model.Fair:
		text += ", first come, first served"
	case kind == model.Red:
		text += ", on a majority of the servers"
	}
	return text
}

// oneOf names one of several things of different kinds that a method holds.
func oneOf(k *model.Key) string {
	switch k.Kind {
	case model.Write:
		return k.Text + " for writing"
	case model.Read:
		return k.Text + " for reading"
	case model.Fair:
		return k.Text + " in turn"
	case model.Red:
		return k.Text + " on a majority of the servers"
	case model.Permit:
		return fmt.Sprintf("one of %d permits of %s", k.Permits, k.Text)
	}
	return k.Text
}

// whenBusy says when a method can't have what it is to hold.
func whenBusy(l *model.Lock) string {
	one := shapeOf(l) == oneKey
	switch kind := l.Keys[0].Kind; {
	case l.Mixed():
		return "others have one of them"
	case kind == model.Read:
		return "somebody writes"
	case kind == model.Permit && one:
		return "others have all permits"
	case kind == model.Permit:
		return "others have all permits of one of them"
	case one:
		return "somebody else holds it"
	}
	return "somebody else holds one of them"
}

// until says how long the locks are held, if that isn't until the method returns.
func until(l *model.Lock) string {
	switch {
	case l.Stream != nil && l.Stream.Closer != "":
		return ", until its result is closed"
	case l.Stream != nil:
		return ", until the loop over its result ends"
	case l.Keep:
		return ", until the lease ends"
	case l.Min > 0:
		return fmt.Sprintf(", for at least %v", l.Min)
	}
	return ""
}

// keyList names keys: a, b and c.
func keyList(keys []*model.Key) string {
	var texts []string
	for _, k := range keys {
		texts = append(texts, k.Text)
	}
	return list(texts)
}

// list joins what is said one after the other.
func list(texts []string) string {
	last := len(texts) - 1
	if last == 0 {
		return texts[0]
	}
	return strings.Join(texts[:last], ", ") + " and " + texts[last]
}
