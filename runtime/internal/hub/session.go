package hub

import (
	"errors"
	"time"
)

// A session is a connection of a lane, from its beginning to its end.
type session struct {
	*lane

	conn     Conn
	begun    time.Time
	worked   bool // a subscription has succeeded
	refusals int  // in a row
}

// lasted reports whether the connection has been of use for a while.
func (s *session) lasted() bool { return s.worked && time.Since(s.begun) >= lasting }

// subscribe subscribes to channels, if there are any, and notes which of them are on this server. It reports whether the server has refused all that it
// was asked for since the connection began; an error is that of a connection that has broken.
func (s *session) subscribe(add []string) (refused bool, err error) {
	if len(add) == 0 {
		return false, nil
	}
	elsewhere, err := s.conn.Subscribe(add)
	s.refusals++ // unless all goes well
	switch {
	case errors.Is(err, ErrRefused) && len(elsewhere) > 0:
		s.failed(err)
		s.worked = s.worked || len(elsewhere) < len(add)
		s.subscribed(add, elsewhere, false)
	case errors.Is(err, ErrRefused):
		s.failed(err)
		return !s.worked, nil
	case err != nil:
		return false, err
	default:
		s.worked = true
		if len(elsewhere) == 0 {
			s.works()
			s.refusals = 0
		}
		s.subscribed(add, elsewhere, true)
	}
	return false, nil
}
