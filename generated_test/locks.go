package generatedtest

import (
	lockrt "github.com/lockgen/lockgen/runtime"
)

// A Seat is one of a show.
type Seat struct {
	Show  int32
	Row   string
	Aisle bool
	No    uint8
}

// A Place is one in a row.
type Place struct {
	Row string
	No  uint8
}

// Locks are the locks of entities.
//
//lockgen:locks prefix=gen/shop wait=5s watchdog=20s
type Locks interface {
	// Order locks one order.
	//
	//lockgen:lock key=order:{id}
	Order(id OrderID) lockrt.EntityMutex[OrderID]

	// Orders locks several orders, or none.
	//
	//lockgen:lock key=order:{ids...} max=3
	Orders(ids ...OrderID) lockrt.EntityMulti[OrderID]

	// User locks one user.
	//
	//lockgen:lock key=user:{id} wait=0
	User(id UserID) lockrt.EntityMutex[UserID]

	// Seat locks one seat of one show.
	//
	//lockgen:lock key=seat:{s.Show}/{s.Row}:{s.No}:{s.Aisle} lease=1m
	Seat(s Seat) lockrt.EntityMutex[Seat]

	// Place locks one place in a row, with a fencing token.
	//
	//lockgen:lock key=place:{row}:{no} fence
	Place(row string, no uint8) lockrt.EntityMutex[Place]
}
